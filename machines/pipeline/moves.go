package pipeline

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// keepStart stores START's configuration and computes the due times from it. Later changes of the Config do not move
// these times.
func keepStart(config Config) statechart.Action[Context] {
	return statechart.TryAssign("keepStart", func(c *Context, e statechart.Event) error {
		start := e.Payload.(Start)
		c.Slot, c.Config = start.Slot, start.Config.withDefaults(config)
		c.WindowEndsAt = e.At.Add(seconds(c.Config.EvaluationWindowSeconds))
		if c.Config.SLA == (SLA{}) {
			return nil
		}
		var err error
		c.WarningAt, c.BreachAt, err = c.Config.SLA.times(c.Date)
		return err
	})
}

var (
	keepReadiness = statechart.Assign("keepReadiness", func(c *Context, e Readiness) { c.Evaluations++; c.Reason = e.Reason })
	countTrigger  = statechart.Update("countTrigger", func(c *Context) { c.TriggerAttempts++ })
	keepJob       = statechart.Assign("keepJob", func(c *Context, e statechart.Event) {
		c.Job = e.Payload.(Job)
		c.JobTimeIsUpAt = e.At.Add(seconds(c.Config.JobTimeLimitSeconds))
	})
	countCheck  = statechart.Update("countCheck", func(c *Context) { c.Checks++ })
	countLost   = statechart.Update("countLost", func(c *Context) { c.AlertsLost++ })
	keepFailure = statechart.Assign("keepFailure", func(c *Context, e statechart.ServiceError) { c.Failure = e.Service + ": " + e.Message })
)

// reach records that an alert is due.
func reach(alert AlertType) statechart.Action[Context] {
	return statechart.Update("reach "+string(alert), func(c *Context) { c.Reached = alert })
}

// conclude ends the work and decides on the service level. An alert that is due counts, even if its timer has not
// fired yet.
func conclude(outcome string) statechart.Action[Context] {
	return statechart.Assign("conclude "+outcome, func(c *Context, e statechart.Event) {
		c.Outcome = outcome
		switch {
		case c.BreachAt.IsZero():
			c.SLA = "none"
		case c.Reached == SLABreach || !e.At.Before(c.BreachAt):
			c.SLA = "breached"
		case outcome != "succeeded":
			c.SLA = "called_off"
		case c.Reached == SLAWarning || !e.At.Before(c.WarningAt):
			c.SLA = "warned"
		default:
			c.SLA = "met"
		}
	})
}

var (
	ready      = statechart.When("ready", func(_ Context, e Readiness) bool { return e.Ready })
	windowOpen = statechart.When("windowOpen", func(c Context, e statechart.Event) bool { return e.At.Before(c.WindowEndsAt) })
	jobHasTime = statechart.When("jobHasTime", func(c Context, e statechart.Event) bool { return e.At.Before(c.JobTimeIsUpAt) })
	agreedOn   = statechart.When("agreedOn", func(_ Context, e Start) bool { return e.Config.SLA != (SLA{}) })
)

func attemptsLeft(retry statechart.RetryPolicy) statechart.Guard[Context] {
	return statechart.When("attemptsLeft", func(c Context, e statechart.ServiceError) bool {
		_, more := retry.Next(c.TriggerAttempts)
		return more && !e.Permanent
	})
}

func jobIs(status JobStatus) statechart.Guard[Context] {
	return statechart.When("jobIs "+string(status), func(_ Context, e Progress) bool { return e.Status == status })
}

// late holds once the breach is due, unless the work ended before. So work that ended in time never causes a breach
// alert, however late the timer fires.
var late = statechart.When("late", func(c Context, e statechart.Event) bool {
	return c.SLA == "breached" || c.SLA == "" && !e.At.Before(c.BreachAt)
})

// verdict holds once the work has ended with this verdict on the service level.
func verdict(sla string) statechart.Guard[Context] {
	return statechart.If("verdict "+sla, func(c Context) bool { return c.SLA == sla })
}

// backoff returns the wait after the last attempt to start the job.
func backoff(retry statechart.RetryPolicy) func(Context, statechart.Event) time.Duration {
	return func(c Context, _ statechart.Event) time.Duration {
		wait, _ := retry.Next(c.TriggerAttempts)
		return wait
	}
}

// nextEvaluation returns the time one interval from now, or the end of the window if that is earlier.
func nextEvaluation(c Context, e statechart.Event) time.Time {
	return earlier(e.At.Add(seconds(c.Config.EvaluationIntervalSeconds)), c.WindowEndsAt)
}

// nextCheck returns the time one interval from now, or the end of the job's time limit if that is earlier.
func nextCheck(c Context, e statechart.Event) time.Time {
	return earlier(e.At.Add(seconds(c.Config.JobCheckIntervalSeconds)), c.JobTimeIsUpAt)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
