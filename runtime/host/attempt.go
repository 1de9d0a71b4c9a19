package host

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// AttemptTimeout limits each attempt of a call that the runtime makes to AWS. The runtime never long-polls a queue, so
// its calls normally take less. The SDK's client has no timeout. Without this limit, a call on a dead connection would
// hold its batch until the function's timeout. Three attempts, the SDK's default, fit into the timeout of every
// function.
const AttemptTimeout = 5 * time.Second

// RuntimeAWS returns the SDK configuration for the runtime's clients: AWS with AttemptTimeout on each attempt. The
// clients share their connections. A custom HTTP client is left unchanged.
func (p *Process) RuntimeAWS() aws.Config {
	config := p.AWS.Copy()
	client, ok := config.HTTPClient.(*awshttp.BuildableClient)
	if config.HTTPClient == nil {
		client, ok = awshttp.NewBuildableClient(), true
	}
	if !ok {
		return config
	}
	if p.attempts == nil {
		p.attempts = attempts{client.GetTransport()}
	}
	config.HTTPClient = p.attempts
	return config
}

// attempts is an HTTP client that limits each request to AttemptTimeout, including the response's body. The timeout of
// http.Client does the same, but starts two goroutines per request, because the SDK wraps the transport.
type attempts struct{ transport *http.Transport }

// Do sends a request. It follows no redirects, because AWS sends none to the runtime's calls.
func (a attempts) Do(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), AttemptTimeout)
	response, err := a.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = attemptBody{response.Body, cancel}
	return response, nil
}

// attemptBody ends the attempt when the SDK closes the body.
type attemptBody struct {
	io.ReadCloser
	end context.CancelFunc
}

// Close closes the body.
func (b attemptBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
