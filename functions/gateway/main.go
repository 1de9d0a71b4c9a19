// Command gateway is the Lambda function behind an HTTP API or a function URL: it sends events
// to instances, shows instances, and takes GitHub's webhooks and the callbacks of third parties.
package main

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.Table, boot.QueueURL)
}

func newHandler(p boot.Process) (any, error) {
	machines, err := p.Machines()
	if err != nil {
		return nil, err
	}
	store := dynamostore.New(dynamodb.NewFromConfig(p.AWS), p.Settings.Table)
	queue := sqsqueue.New(sqs.NewFromConfig(p.AWS), p.Settings.QueueURL, "")
	config := httpapi.Config{GitHubSecret: p.Settings.GitHubWebhookSecret, Logger: p.Logger}
	if callbacks := p.Settings.Machines.EnrichCallbacks; len(callbacks.Key) > 0 {
		config.Callbacks = map[string]httpapi.Callback{
			enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback},
		}
	}
	handler, err := httpapi.New(machines, queue, store, config)
	if err != nil {
		return nil, err
	}
	return httpapi.Lambda(handler), nil
}
