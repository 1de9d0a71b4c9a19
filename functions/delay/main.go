// Command delay is the Lambda function behind the delay queue: it brings timers that are due
// to the FIFO queue. Its event source mapping must report batch item failures.
package main

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.QueueURL, boot.DelayQueueURL)
}

func newHandler(p boot.Process) (any, error) {
	client := sqs.NewFromConfig(p.AWS)
	delays := schedule.NewDelayQueue(client, p.Settings.DelayQueueURL, time.Now)
	forwarder := schedule.NewForwarder(delays, sqsqueue.New(client, p.Settings.QueueURL, ""))
	return sqsqueue.EachHandler(p.Logger, forwarder.Forward), nil
}
