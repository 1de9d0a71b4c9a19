// Command executions is the Lambda function behind the queue of an EventBridge rule for "Step Functions Execution
// Status Change". When an execution ends, it sends an event to the instance that started it. Its event source mapping
// must report batch item failures.
package main

import "github.com/settle-run/settle/runtime/host"

func main() { host.Main(host.Executions()) }
