// Command executions is the Lambda function behind the queue of an EventBridge rule for "Step Functions Execution Status
// Change": it tells instances of the ends of the executions that they have started. Its event source mapping must
// report batch item failures.
package main

import (
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.QueueURL)
}

func newHandler(p boot.Process) (any, error) {
	queue := sqsqueue.New(sqs.NewFromConfig(p.AWS), p.Settings.QueueURL, "")
	forwarder := sfncallback.NewForwarder(sfn.NewFromConfig(p.AWS), queue, p.Logger)
	return sqsqueue.EachHandler(p.Logger, forwarder.Forward), nil
}
