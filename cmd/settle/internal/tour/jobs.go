package tour

import (
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/machines/job"
)

// pickedUp plays a workflow job that a runner picks up and completes.
func (p *player) pickedUp() []end {
	p.title("A GitHub workflow job runs, and a Step Functions workflow waits for it",
		"GitHub reports the job in three webhooks. The first one launches a runner. Between them",
		"nothing runs: the job is an item in DynamoDB. The workflow waits twice, and branches on",
		"the outcome.")
	hook := newWorkflowJob(1001, 1, "test")
	instance := "job/" + job.InstanceID(1001, 1)
	execution := p.startWorkflow("job", instance, nil)
	p.taskWaits(instance, job.WaitQueued)
	p.webhook(hook, "queued", instance, "queued")
	hook["runner_name"] = "linux-1"
	p.webhook(hook, "in_progress", instance, "in_progress")
	p.taskWaits(instance, job.WaitInProgress)
	hook["conclusion"] = "success"
	p.webhook(hook, "completed", instance, "success")
	ended := p.ended("job", execution, "Queued", "PickedUp?", "InProgress", "Outcome", "Succeeded")
	p.showEnd(instance, ended)
	return []end{{instance, []string{"success"}}}
}

// neverPickedUp plays a workflow job that no runner picks up.
func (p *player) neverPickedUp() []end {
	p.title("A workflow job that no runner picks up",
		fmt.Sprintf("Each runner gets %s to pick up the job. Outside this demo it gets 5 minutes. After three", console.Span(p.config.PickUpTimeout)),
		"runners the chart gives up. Only the first event comes from outside. The others are timers.")
	hook := newWorkflowJob(1002, 2, "deploy")
	instance := "job/" + job.InstanceID(1002, 2)
	execution := p.startWorkflow("job", instance, nil)
	p.taskWaits(instance, job.WaitQueued)
	p.webhook(hook, "queued", instance, "queued")
	p.await(instance, "", "not_picked_up")
	ended := p.ended("job", execution, "Queued", "PickedUp?", "Outcome", "NotPickedUp")
	p.showEnd(instance, ended)
	return []end{{instance, []string{"not_picked_up"}}}
}

// signUp plays a sign-up with one wrong code and a second mail.
func (p *player) signUp() []end {
	const instance, waiting = "signup/ada", "unverified.awaiting_verification"
	p.title("A sign-up, with a wrong code and a second mail",
		"The user gets a code by mail and must enter it within 24 hours. While a service sends the mail",
		"or creates the account, the state is not settled, and events wait in the queue.")
	p.event(instance, "SIGN_UP", map[string]any{"email": "ada@example.com", "name": "Ada"})
	p.await(instance, "", waiting)
	p.event(instance, "VERIFY", map[string]any{"code": wrongCode(p.seen.lastCode())})
	p.await(instance, "VERIFY", waiting)
	p.event(instance, "RESEND", nil)
	p.await(instance, "", "unverified.registering")
	p.await(instance, "", waiting)
	p.event(instance, "VERIFY", map[string]any{"code": p.seen.lastCode()})
	p.await(instance, "", "active")
	p.showEnd(instance)
	return []end{{instance, []string{"active"}}}
}

// wrongCode returns another code.
func wrongCode(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}
