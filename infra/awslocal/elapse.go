package awslocal

import "time"

// elapse performs the work that is due: it sends the messages of due schedules and resumes executions whose waits or
// timeouts have ended.
func (c *Cloud) elapse(now time.Time) {
	c.scheduler.Advance(now)
	for firings := c.scheduler.TakeFirings(); len(firings) > 0; firings = c.scheduler.TakeFirings() {
		for _, firing := range firings {
			_, err := c.sqs.Call(now, "", "SendMessage", firing.Request)
			c.scheduler.Finish(now, firing.ID, err)
		}
	}
	c.states.Advance(now)
	c.performTasks(now)
}

// setAlarm sets the timer for the next time-driven work.
func (c *Cloud) setAlarm(now time.Time) {
	next, ok := c.scheduler.Next()
	if at, waits := c.states.Next(); waits && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	if ok && c.alarm != nil && next.Equal(c.alarmAt) {
		return
	}
	if c.alarm != nil {
		c.alarm.Stop()
		c.alarm = nil
	}
	if ok {
		c.alarmAt = next
		// The timer may fire before the clock c.now reaches this time. The change then sets the alarm again.
		c.alarm = time.AfterFunc(c.until(next, now), func() { c.change(func(time.Time) { c.alarm = nil }) })
	}
}
