package host

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// These are the AWS SDK variables that are read. Lambda sets the Region and the credentials of the function's role.
// Other SDK settings, such as profiles and single sign-on, do not apply to functions, and reading them would add two
// megabytes to each executable.
const (
	awsRegion        = "AWS_REGION"
	awsDefaultRegion = "AWS_DEFAULT_REGION"
	awsKeyID         = "AWS_ACCESS_KEY_ID"
	awsSecret        = "AWS_SECRET_ACCESS_KEY"
	awsSession       = "AWS_SESSION_TOKEN"
	awsEndpoint      = "AWS_ENDPOINT_URL"
	awsIgnore        = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
	awsAttempts      = "AWS_MAX_ATTEMPTS"
	awsRetryMode     = "AWS_RETRY_MODE"
	awsFIPS          = "AWS_USE_FIPS_ENDPOINT"
	awsDualStack     = "AWS_USE_DUALSTACK_ENDPOINT"
)

// awsConfig returns the configuration of the SDK's clients. It reports problems to the Env.
func (r *Env) awsConfig() aws.Config {
	config := aws.Config{ConfigSources: []any{awsSource{r}}}
	if config.Region = r.Text(awsRegion, ""); config.Region == "" {
		config.Region = r.Text(awsDefaultRegion, "")
	}
	if config.Region == "" {
		r.Wrong(awsRegion, "the function's Region, which Lambda sets", "nothing: set it")
	}
	keys := aws.Credentials{AccessKeyID: r.Text(awsKeyID, ""), SecretAccessKey: r.Text(awsSecret, ""), SessionToken: r.Text(awsSession, ""), Source: "environment"}
	if !keys.HasKeys() {
		r.Wrong(awsKeyID+" and "+awsSecret, "the credentials of the function's role, which Lambda sets", "nothing: set them")
	}
	config.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil })
	if endpoint := r.Text(awsEndpoint, ""); endpoint != "" && !r.isTrue(awsIgnore) {
		config.BaseEndpoint = &endpoint
	}
	if attempts := r.Text(awsAttempts, ""); attempts != "" {
		config.RetryMaxAttempts = r.Count(awsAttempts)
	}
	if mode := r.Text(awsRetryMode, ""); mode != "" {
		var err error
		if config.RetryMode, err = aws.ParseRetryMode(mode); err != nil {
			r.Wrong(awsRetryMode, "standard or adaptive", strconv.Quote(mode))
		}
	}
	return config
}

// AttemptTimeout limits each attempt of a call that the runtime makes. The runtime never polls a queue, so its calls
// are all shorter. The SDK's client has no timeout: a call on a dead connection would hold its batch until the
// function's timeout. Three attempts, the SDK's default, fit into the timeout of every function.
const AttemptTimeout = 5 * time.Second

// RuntimeAWS returns the configuration of the runtime's clients: AWS with AttemptTimeout for each attempt (AWS SDK for
// Go v2 Developer Guide, "Configuring the HTTP client"). An HTTP client that is not the SDK's is left unchanged.
func (p *Process) RuntimeAWS() aws.Config {
	config := p.AWS.Copy()
	client, ok := config.HTTPClient.(*awshttp.BuildableClient)
	if config.HTTPClient == nil {
		client, ok = awshttp.NewBuildableClient(), true
	}
	if ok {
		config.HTTPClient = client.WithTimeout(AttemptTimeout)
	}
	return config
}

func (r *Env) isTrue(name string) bool { return strings.EqualFold(r.Text(name, ""), "true") }

// awsSource answers the SDK's queries for settings of single services.
type awsSource struct{ env *Env }

// GetServiceBaseEndpoint returns the endpoint of one service, such as the value of AWS_ENDPOINT_URL_SQS.
func (s awsSource) GetServiceBaseEndpoint(_ context.Context, sdkID string) (string, bool, error) {
	value := s.env.Text(awsEndpoint+"_"+strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")), "")
	return value, value != "", nil
}

// GetIgnoreConfiguredEndpoints reports whether to ignore all such variables.
func (s awsSource) GetIgnoreConfiguredEndpoints(context.Context) (bool, bool, error) {
	ignore := s.env.isTrue(awsIgnore)
	return ignore, ignore, nil
}

// GetUseFIPSEndpoint reports whether to use endpoints with validated cryptography.
func (s awsSource) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	if !s.env.isTrue(awsFIPS) {
		return aws.FIPSEndpointStateUnset, false, nil
	}
	return aws.FIPSEndpointStateEnabled, true, nil
}

// GetUseDualStackEndpoint reports whether to use endpoints with IPv6.
func (s awsSource) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	if !s.env.isTrue(awsDualStack) {
		return aws.DualStackEndpointStateUnset, false, nil
	}
	return aws.DualStackEndpointStateEnabled, true, nil
}
