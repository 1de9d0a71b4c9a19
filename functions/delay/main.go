// Command delay is the Lambda function behind the delay queue. It sends due timers to the FIFO queue. Its event source
// mapping must report batch item failures.
package main

import "github.com/settle-run/settle/runtime/host"

func main() { host.Main(host.Delay()) }
