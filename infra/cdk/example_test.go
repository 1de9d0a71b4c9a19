package cdk_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// In this stack, consumer, gateway and tokentask host the machines of another module. The other
// functions are Settle's.
func ExampleNewSettle() {
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, nil, nil)
	cdk.NewSettle(stack, "Library", cdk.Props{
		Code:            cdk.CodeFromFolder("build", "../settle/.bin/functions/arm64"),
		WithoutExamples: true, // no workflows and secrets of the sample machines
		Environment:     map[string]string{"BANK_URL": "https://bank.example.com"},
	})
	app.Synth(nil)
}

// behindCloudFront requires CloudFront's secret header on the open routes. The Lambda function `verify` checks the
// header.
func behindCloudFront(stack awscdk.Stack, settle *cdk.Settle, verify awslambda.IFunction) {
	authorizer := awsapigatewayv2.NewCfnAuthorizer(stack, jsii.String("OriginAuthorizer"), &awsapigatewayv2.CfnAuthorizerProps{
		ApiId: settle.HTTPAPI.Ref(), Name: jsii.String("origin"), AuthorizerType: jsii.String("REQUEST"),
		AuthorizerUri: jsii.String("arn:" + *awscdk.Aws_PARTITION() + ":apigateway:" + *awscdk.Aws_REGION() +
			":lambda:path/2015-03-31/functions/" + *verify.FunctionArn() + "/invocations"),
		AuthorizerPayloadFormatVersion: jsii.String("2.0"), EnableSimpleResponses: jsii.Bool(true),
		IdentitySource: jsii.Strings("$request.header.X-Origin-Verify"), AuthorizerResultTtlInSeconds: jsii.Number(3600),
	})
	verify.AddPermission(jsii.String("ApiInvokesAuthorizer"), &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
		SourceArn: stack.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: settle.HTTPAPI.Ref(), ResourceName: jsii.String("authorizers/" + *authorizer.Ref()),
		}),
	})
	for _, id := range []string{"PostGitHubRoute", "PostCallbackRoute"} {
		route := settle.Scope.Node().FindChild(jsii.String(id)).(awsapigatewayv2.CfnRoute)
		route.SetAuthorizationType(jsii.String("CUSTOM"))
		route.SetAuthorizerId(authorizer.Ref())
	}
}

func TestOpenRoutesCanHaveAnAuthorizer(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		settle := cdk.NewSettle(stack, "Settle", props())
		behindCloudFront(stack, settle, awslambda.NewFunction(stack, jsii.String("Verify"), &awslambda.FunctionProps{
			Code:    awslambda.Code_FromBucket(awss3.Bucket_FromBucketName(stack, jsii.String("Bucket"), jsii.String("code")), jsii.String("verify.zip"), nil),
			Handler: jsii.String("bootstrap"), Runtime: awslambda.Runtime_PROVIDED_AL2023(),
		}))
	})
	authorizer, _ := find(t, resources, "AWS::ApiGatewayV2::Authorizer", "OriginAuthorizer")
	secured := 0
	for id, route := range resources {
		if route.Type != "AWS::ApiGatewayV2::Route" {
			continue
		}
		switch authorization := route.Properties["AuthorizationType"]; authorization {
		case "AWS_IAM":
		case "CUSTOM":
			secured++
			if got := at(route.Properties, "AuthorizerId", "Ref"); got != authorizer {
				t.Errorf("%s: expected the authorizer %s, got %v", id, authorizer, got)
			}
		default:
			t.Errorf("%s: expected IAM or the authorizer, got %v", id, authorization)
		}
	}
	if secured != 2 {
		t.Errorf("expected the authorizer on two routes, got %d", secured)
	}
	var invokers []string
	for _, permission := range resources {
		if name := at(permission.Properties, "FunctionName", "Fn::GetAtt", 0); permission.Type == "AWS::Lambda::Permission" && strings.HasPrefix(fmt.Sprint(name), "Verify") {
			invokers = append(invokers, fmt.Sprint(readable(permission.Properties["SourceArn"])))
		}
	}
	api, _ := find(t, resources, "AWS::ApiGatewayV2::Api", "Settle")
	want := []string{arn + "execute-api" + here + "${" + api + "}/authorizers/${" + authorizer + "}"}
	if !slices.Equal(invokers, want) {
		t.Errorf("expected the permission to invoke the function for %q, got %q", want, invokers)
	}
}

func TestPagesHaveTheseExamples(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, page := range []string{"../README.md", "../../docs/floods.md"} {
		_, rest, _ := strings.Cut(read(page), "\n```go\n")
		block, _, found := strings.Cut(rest, "```\n")
		if indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n\t"); !found || !strings.Contains(read("example_test.go"), indented) {
			t.Errorf("expected example_test.go to contain the example of %s:\n%s", page, block)
		}
	}
}
