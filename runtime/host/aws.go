package host

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
)

// LoadAWS loads the configuration of the SDK's clients.
type LoadAWS func(ctx context.Context) (aws.Config, error)

// loadAWS is the LoadAWS of Main. It reads what every AWS SDK reads (AWS SDKs and Tools Reference Guide, "Settings
// reference"). The SDK does not log, because its lines would not be JSON.
func loadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
}

// awsConfig returns the configuration of the SDK's clients. It reports problems to the Env.
func (r *Env) awsConfig(load LoadAWS) aws.Config {
	ctx := context.Background()
	loaded, err := load(ctx)
	if err != nil {
		r.Problem(fmt.Errorf("AWS settings: expected values that the SDK accepts, got an error: %w", err))
		return loaded
	}
	if loaded.Region == "" {
		r.Wrong("AWS_REGION", "the function's Region, which Lambda sets", "nothing: set it")
	}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil {
		r.Wrong("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "the credentials of the function's role, which Lambda sets", "nothing: set them")
	}
	return loaded
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
