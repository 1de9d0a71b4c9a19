package tour

import (
	"context"
	"fmt"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/machines/job"
)

// pickedUp plays a workflow job that a runner picks up and completes.
func (p *player) pickedUp(ctx context.Context) ([]end, error) {
	p.title("A GitHub workflow job runs, and a Step Functions workflow waits for it",
		"GitHub reports the job in three webhooks. The first one launches a runner. Between them",
		"nothing runs: the job is an item in DynamoDB. The workflow waits twice, and branches on",
		"the outcome.")
	p.log.SetColumns(len("job/run-1001-job-1"), len("in_progress"))
	hook := newWorkflowJob(1001, 1, "test", time.Now())
	instance := "job/" + job.InstanceID(hook.RunID, hook.ID)
	execution, err := p.startWorkflow(ctx, "job", instance, nil)
	if err != nil {
		return nil, err
	}
	if err := p.taskWaits(ctx, instance, job.WaitQueued); err != nil {
		return nil, err
	}
	if err := p.webhook(ctx, hook, "queued", instance, "queued"); err != nil {
		return nil, err
	}
	runner, conclusion := "linux-1", "success"
	hook.RunnerName = &runner
	if err := p.webhook(ctx, hook, "in_progress", instance, "in_progress"); err != nil {
		return nil, err
	}
	if err := p.taskWaits(ctx, instance, job.WaitInProgress); err != nil {
		return nil, err
	}
	hook.Conclusion = &conclusion
	if err := p.webhook(ctx, hook, "completed", instance, "success"); err != nil {
		return nil, err
	}
	ended, err := p.ended(ctx, "job", execution, "Queued", "PickedUp?", "InProgress", "Outcome", "Succeeded")
	if err != nil {
		return nil, err
	}
	return []end{{instance, []string{"success"}}}, p.showBeside(ctx, instance, ended)
}

// neverPickedUp plays a workflow job that no runner picks up.
func (p *player) neverPickedUp(ctx context.Context) ([]end, error) {
	p.title("A workflow job that no runner picks up",
		fmt.Sprintf("Each runner gets %s to pick up the job. Outside this demo it gets 5 minutes. After three", console.Span(p.config.PickUpTimeout)),
		"runners the chart gives up. Only the first event comes from outside. The others are timers.")
	p.log.SetColumns(len("job/run-1002-job-2"), len("after pick_up"))
	hook := newWorkflowJob(1002, 2, "deploy", time.Now())
	instance := "job/" + job.InstanceID(hook.RunID, hook.ID)
	execution, err := p.startWorkflow(ctx, "job", instance, nil)
	if err != nil {
		return nil, err
	}
	if err := p.taskWaits(ctx, instance, job.WaitQueued); err != nil {
		return nil, err
	}
	if err := p.webhook(ctx, hook, "queued", instance, "queued"); err != nil {
		return nil, err
	}
	if err := p.seen.await(ctx, instance, "", "not_picked_up"); err != nil {
		return nil, err
	}
	ended, err := p.ended(ctx, "job", execution, "Queued", "PickedUp?", "Outcome", "NotPickedUp")
	if err != nil {
		return nil, err
	}
	return []end{{instance, []string{"not_picked_up"}}}, p.showBeside(ctx, instance, ended)
}

// signUp plays a sign-up with one wrong code and a second mail.
func (p *player) signUp(ctx context.Context) ([]end, error) {
	const instance, waiting = "signup/ada", "unverified.awaiting_verification"
	p.title("A sign-up, with a wrong code and a second mail",
		"The user gets a code by mail and must enter it within 24 hours. While a service sends the mail",
		"or creates the account, the state is not settled, and events wait in the queue.")
	p.log.SetColumns(len(instance), len("done.invoke"))
	steps := []struct {
		event   string
		payload func() map[string]any
		// ends is where the instance settles after the transition on the event on.
		on, ends string
	}{
		{"SIGN_UP", func() map[string]any { return map[string]any{"email": "ada@example.com", "name": "Ada"} }, "", waiting},
		{"VERIFY", func() map[string]any { return map[string]any{"code": wrongCode(p.seen.lastCode())} }, "VERIFY", waiting},
		{"RESEND", nil, "", "unverified.registering"},
		{"", nil, "", waiting},
		{"VERIFY", func() map[string]any { return map[string]any{"code": p.seen.lastCode()} }, "", "active"},
	}
	for _, step := range steps {
		if step.event != "" {
			payload := map[string]any{}
			if step.payload != nil {
				payload = step.payload()
			}
			if err := p.event(ctx, instance, step.event, payload); err != nil {
				return nil, err
			}
		}
		if err := p.seen.await(ctx, instance, step.on, step.ends); err != nil {
			return nil, err
		}
	}
	return []end{{instance, []string{"active"}}}, p.showBeside(ctx, instance)
}

// wrongCode returns another code.
func wrongCode(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}
