// Command tokentask is a Lambda function that a Step Functions task invokes to wait for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken). It checks the event, which a task that sends
// straight to the queue cannot, and puts it into the FIFO queue.
package main

import (
	"github.com/settle-run/settle/functions/host"
	"github.com/settle-run/settle/functions/internal/shipped"
)

func main() { host.TokenTask(shipped.Machines) }
