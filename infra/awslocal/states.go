package awslocal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// performTasks performs the tasks of executions. SQS calls happen at once, within the current change. Functions run
// concurrently.
func (c *Cloud) performTasks(now time.Time) {
	for tasks := c.states.TakeTasks(); len(tasks) > 0; tasks = c.states.TakeTasks() {
		for _, task := range tasks {
			switch task.Service {
			case "sqs":
				answer, err := c.sqs.Call(now, "", "SendMessage", task.Input)
				c.states.Finish(now, task.ID, answer, sqsFailure(err))
			case "lambda":
				c.invokeTask(now, task)
			default:
				panic("awslocal: a task of the unknown service " + task.Service) // the model rejects these
			}
		}
	}
}

// sqsFailure converts an SQS error to the error that Step Functions reports, such as SQS.QueueDoesNotExistException.
func sqsFailure(err *wire.Error) *states.Failure {
	if err == nil {
		return nil
	}
	name := err.Code
	if !strings.HasSuffix(name, "Exception") {
		name += "Exception"
	}
	return &states.Failure{Error: "SQS." + name, Cause: err.Message}
}

// invokeTask invokes the function of a task, and completes the task when the function answers.
func (c *Cloud) invokeTask(now time.Time, task states.Task) {
	name, err := nameOfFunction(task.Function)
	function, ok := c.functions[name]
	if err == nil && !ok {
		err = fmt.Errorf("Function not found: %s; expected one that was registered with Cloud.Register", task.Function)
	}
	if err != nil {
		c.states.Finish(now, task.ID, nil, &states.Failure{Error: "Lambda.ResourceNotFoundException", Cause: err.Error()})
		return
	}
	c.invocations = append(c.invocations, func() {
		answer, err := function.invoke(context.Background(), task.Input)
		c.change(func(now time.Time) { c.states.Finish(now, task.ID, answer, functionFailure(err)) })
	})
}

// nameOfFunction returns the function name from a name or an ARN. It rejects versions and aliases: awslocal has only
// $LATEST.
func nameOfFunction(function string) (string, error) {
	name := function
	if _, rest, isARN := strings.Cut(function, ":function:"); isARN {
		name = rest
	}
	name, qualifier, qualified := strings.Cut(name, ":")
	if qualified && qualifier != "$LATEST" {
		return "", fmt.Errorf("awslocal does not support versions and aliases of functions: expected the function without %q, got %s", ":"+qualifier, function)
	}
	return name, nil
}

// functionFailure converts a function's error to the error that Step Functions reports. The errorType becomes the name,
// and Lambda's JSON of the error becomes the cause.
func functionFailure(err error) *states.Failure {
	if err == nil {
		return nil
	}
	failed := functionError(err)
	cause, marshalErr := json.Marshal(map[string]string{"errorMessage": failed.Message, "errorType": failed.Type})
	if marshalErr != nil {
		panic("awslocal: cannot encode texts as JSON: " + marshalErr.Error())
	}
	return &states.Failure{Error: failed.Type, Cause: string(cause)}
}
