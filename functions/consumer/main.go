// Command consumer is the Lambda function behind the FIFO queue. It applies events to instances. Its event source
// mapping must report batch item failures.
package main

import (
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
)

func main() { host.Main(host.Consumer(samples.ConsumerMachines)) }
