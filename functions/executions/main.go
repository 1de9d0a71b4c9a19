// Command executions is the Lambda function behind the queue of an EventBridge rule for "Step Functions Execution Status
// Change": it tells instances of the ends of the executions that they have started. Its event source mapping must
// report batch item failures.
package main

import "github.com/settle-run/settle/functions/host"

func main() { host.Executions() }
