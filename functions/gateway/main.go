// Command gateway is the Lambda function behind an HTTP API or a function URL: it sends events
// to instances, shows instances, and takes GitHub's webhooks and the callbacks of third parties.
package main

import (
	"github.com/settle-run/settle/functions/host"
	"github.com/settle-run/settle/functions/internal/shipped"
)

func main() { host.Gateway(shipped.Machines, shipped.Callbacks) }
