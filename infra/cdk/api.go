package cdk

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// Authorisation of routes.
const (
	byIAM  = "AWS_IAM"
	byNone = "NONE"
)

type route struct{ id, key, authorization string }

// routes are the routes of functions/gateway. Two of them need no IAM authorization, because the gateway authenticates
// their callers: by GitHub's signature, or by the key in the address.
var routes = []route{
	{"PostEvent", "POST /instances/{machine}/{id}/events", byIAM},
	{"GetInstance", "GET /instances/{machine}/{id}", byIAM},
	{"GetAlias", "GET /aliases/{alias+}", byIAM},
	{"PostAliasEvent", "POST /aliases/{alias+}", byIAM},
	{"GetMachines", "GET /machines", byIAM},
	{"GetOpenAPI", "GET /openapi.json", byIAM},
	{"GetHealth", "GET /healthz", byIAM},
	{"PostGitHub", "POST /webhooks/github", byNone},
	{"PostCallback", "POST /webhooks/{provider}/{id}/{until}/{key}", byNone},
}

// The request limits of routes authorized by IAM: a quarter of an account's default limits. Open routes use
// Props.WebhooksPerSecond.
const (
	requestsPerSecond = 2500
	requestsBurst     = 1250
)

// routes returns the routes of the stack. An open route needs a handler: GitHub's webhook needs its secret, and callbacks
// need enrich's key or Props.Callbacks.
func (s *Settle) routes() []route {
	return slices.DeleteFunc(slices.Clone(routes), func(r route) bool {
		return r.id == "PostGitHub" && s.secrets.GitHubWebhook == nil ||
			r.id == "PostCallback" && s.secrets.EnrichCallbackKey == nil && !s.props.Callbacks
	})
}

// addAPI adds the HTTP API. The functions need its address.
func (s *Settle) addAPI() {
	s.HTTPAPI = awsapigatewayv2.NewCfnApi(s.Scope, jsii.String("HttpApi"), &awsapigatewayv2.CfnApiProps{
		Name: s.name, Description: jsii.String("Settle: sends events to instances and shows them."), ProtocolType: jsii.String("HTTP"),
	})
	s.URL = s.HTTPAPI.AttrApiEndpoint()
}

// addRoutes connects the routes to the gateway.
func (s *Settle) addRoutes() {
	gateway := s.Functions[Gateway]
	integration := awsapigatewayv2.NewCfnIntegration(s.Scope, jsii.String("HttpApiIntegration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId: s.HTTPAPI.Ref(), IntegrationType: jsii.String("AWS_PROXY"), IntegrationMethod: jsii.String("POST"),
		IntegrationUri: gateway.FunctionArn(), PayloadFormatVersion: jsii.String("2.0"),
	})
	limits := map[string]any{}
	var limited []awsapigatewayv2.CfnRoute
	for _, route := range s.routes() {
		added := awsapigatewayv2.NewCfnRoute(s.Scope, jsii.String(route.id+"Route"), &awsapigatewayv2.CfnRouteProps{
			ApiId: s.HTTPAPI.Ref(), RouteKey: jsii.String(route.key), AuthorizationType: jsii.String(route.authorization),
			Target: jsii.String("integrations/" + *integration.Ref()),
		})
		if route.authorization == byNone {
			limits[route.key] = map[string]any{"ThrottlingRateLimit": s.props.WebhooksPerSecond, "ThrottlingBurstLimit": s.props.WebhooksPerSecond}
			limited = append(limited, added)
		}
	}
	awslambda.NewCfnPermission(s.Scope, jsii.String("HttpApiInvokesGateway"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: gateway.FunctionArn(), Principal: jsii.String("apigateway.amazonaws.com"),
		SourceArn: arn("execute-api", *s.HTTPAPI.Ref()+"/*"), SourceAccount: awscdk.Aws_ACCOUNT_ID(),
	})
	logs := awslogs.NewLogGroup(s.Scope, jsii.String("HttpApiLogs"), &awslogs.LogGroupProps{
		Retention: s.props.LogRetention, EncryptionKey: s.props.EncryptionKey, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	stage := awsapigatewayv2.NewCfnStage(s.Scope, jsii.String("HttpApiStage"), &awsapigatewayv2.CfnStageProps{
		ApiId: s.HTTPAPI.Ref(), StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(), Format: jsii.String(accessLogFormat),
		},
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit: jsii.Number(requestsPerSecond), ThrottlingBurstLimit: jsii.Number(requestsBurst), DetailedMetricsEnabled: jsii.Bool(false),
		},
		RouteSettings: limits,
	})
	for _, route := range limited {
		stage.AddDependency(route) // API Gateway rejects settings of routes that do not exist.
	}
}

// accessLogFormat logs the route instead of the path, because the path of a callback contains a key.
const accessLogFormat = `{"caller":"$context.identity.caller","error":"$context.error.message","ip":"$context.identity.sourceIp",` +
	`"latency":"$context.responseLatency","request":"$context.requestId","route":"$context.routeKey","status":"$context.status","time":"$context.requestTime"}`
