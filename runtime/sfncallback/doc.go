// Package sfncallback connects instances with AWS Step Functions executions, in both directions.
//
// Callback implements durable.Tokens: it answers tasks that wait with a task token, and sends their heartbeats (Step
// Functions Developer Guide, "Wait for a Callback with Task Token"). Step Functions returns the same error for a
// repeated answer and for an expired task. After this error, and only then, Callback reads the execution's history to
// distinguish the two. Without the execution's ARN, Callback decides by its own earlier calls. Its IAM role needs
// states:SendTaskSuccess, states:SendTaskFailure, states:SendTaskHeartbeat and states:GetExecutionHistory.
//
// Workflows implements durable.Executions: it starts executions of standard workflows and polls their status. Its
// role needs states:StartExecution and states:DescribeExecution. Forwarder sends EventBridge's events about ended
// executions to the instances that started them. Its role needs states:DescribeExecution.
package sfncallback
