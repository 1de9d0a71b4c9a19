package awslocal

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// serveScheduler serves a request to EventBridge Scheduler, which uses REST-JSON.
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

// writeREST writes the answer, or the error if it is not nil, in REST-JSON.
func writeREST(w http.ResponseWriter, answer []byte, err *wire.Error) {
	if err == nil {
		write(w, http.StatusOK, "application/json", answer)
		return
	}
	body, failed := json.Marshal(map[string]string{"Message": err.Message})
	if failed != nil {
		panic("awslocal: cannot encode a message as JSON: " + failed.Error())
	}
	w.Header().Set("X-Amzn-Errortype", err.Code)
	write(w, statusOf(err), "application/json", body)
}
