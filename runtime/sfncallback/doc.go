// Package sfncallback joins instances and executions of AWS Step Functions, both ways.
//
// Callback implements durable.Tokens: it ends the waits of tasks that have handed out a callback token,
// and beats their hearts (Step Functions Developer Guide, "Wait for a Callback with Task Token"). Step
// Functions answers a repeat and an expiry alike. Callback tells them apart by what it knows of
// its own calls, and asks for the execution's history only when it does not know. Its IAM role needs
// states:SendTaskSuccess, states:SendTaskFailure, states:SendTaskHeartbeat and
// states:GetExecutionHistory.
//
// Workflows implements durable.Executions: it starts executions of standard workflows, and looks after
// them. Its role needs states:StartExecution and states:DescribeExecution. Forwarder brings
// EventBridge's events of their ends to the instances; its role needs states:DescribeExecution.
package sfncallback
