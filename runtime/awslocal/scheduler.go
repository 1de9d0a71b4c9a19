package awslocal

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// elapse performs what time has brought: schedules that are due send their messages.
func (c *Cloud) elapse(now time.Time) {
	c.scheduler.Advance(now)
	for firings := c.scheduler.TakeFirings(); len(firings) > 0; firings = c.scheduler.TakeFirings() {
		for _, firing := range firings {
			_, err := c.sqs.Call(now, "", "SendMessage", firing.Request)
			c.scheduler.Finish(now, firing.ID, err)
		}
	}
}

// setAlarm sees to it that what time brings next is performed in time.
func (c *Cloud) setAlarm(now time.Time) {
	next, ok := c.scheduler.Next()
	if ok && c.alarm != nil && next.Equal(c.alarmAt) {
		return
	}
	if c.alarm != nil {
		c.alarm.Stop()
		c.alarm = nil
	}
	if ok {
		c.alarmAt = next
		// An alarm that goes off too early, by the clock, is set again.
		c.alarm = time.AfterFunc(next.Sub(now), func() { c.change(func(time.Time) { c.alarm = nil }) })
	}
}

// serveScheduler serves a request of EventBridge Scheduler, which is REST-JSON.
func (c *Cloud) serveScheduler(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		writeREST(w, nil, err)
		return
	}
	answer, err := c.call(r.Context(), func(now time.Time) ([]byte, *wire.Error) {
		return c.scheduler.Serve(now, r.Method, r.URL.Path, r.URL.Query(), body)
	})
	writeREST(w, answer, err)
}

// writeREST writes an answer, or err if there is one, in REST-JSON.
func writeREST(w http.ResponseWriter, answer []byte, err *wire.Error) {
	if err == nil {
		write(w, http.StatusOK, "application/json", answer)
		return
	}
	body, failed := json.Marshal(map[string]string{"Message": err.Message})
	if failed != nil {
		panic("awslocal: a message that is not JSON: " + failed.Error())
	}
	w.Header().Set("X-Amzn-Errortype", err.Code)
	write(w, statusOf(err), "application/json", body)
}
