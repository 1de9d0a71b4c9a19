// Command consumer is the Lambda function behind the FIFO queue. It applies events to instances. Its event source
// mapping must report batch item failures.
package main

import (
	"github.com/settle-run/settle/functions/host"
	"github.com/settle-run/settle/functions/internal/samples"
)

func main() { host.Consumer(samples.ConsumerMachines) }
