// Command gateway is the Lambda function behind an HTTP API or a function URL. It sends events to instances, shows
// instances, and accepts GitHub's webhooks and the callbacks of third parties.
package main

import (
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
)

func main() { host.Main(host.Gateway(samples.Machines, samples.ThirdParties)) }
