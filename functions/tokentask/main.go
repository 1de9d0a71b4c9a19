// Command tokentask is a Lambda function that a Step Functions task invokes to wait for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken). It validates the event and sends it to the FIFO queue. A task that
// sends to the queue directly skips the validation.
package main

import (
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
)

func main() { host.Main(host.TokenTask(samples.Machines)) }
