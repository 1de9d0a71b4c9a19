// Command tokentask is a Lambda function that a Step Functions task invokes to wait for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken). It checks the event, which a task that sends
// straight to the queue cannot, and puts it into the FIFO queue.
package main

import (
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.QueueURL)
}

func newHandler(p boot.Process) (any, error) {
	machines, err := p.Machines()
	if err != nil {
		return nil, err
	}
	return sqsqueue.TaskHandler(machines, sqsqueue.New(sqs.NewFromConfig(p.AWS), p.Settings.QueueURL, "")), nil
}
