package awslocal_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal"
)

func TestClockPath_serves_GET_HEAD_and_POST(t *testing.T) {
	t.Parallel()
	cloud, _ := virtual()
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", http.StatusOK, `"clock":"virtual","ahead_seconds":0}`},
		{http.MethodHead, "", http.StatusOK, ""},
		{http.MethodPut, "", http.StatusMethodNotAllowed, "expected GET, HEAD or POST, got PUT"},
		{http.MethodPost, `{"advance": "1m"} {}`, http.StatusBadRequest, `expected a JSON object such as {"advance": "72h"}`},
		{http.MethodPost, `{"advance": "1m"`, http.StatusBadRequest, `expected a JSON object such as {"advance": "72h"}`},
		{http.MethodPost, `{"advance": "3d"}`, http.StatusBadRequest, "expected a duration such as 72h or 90m"},
		{http.MethodPost, `{"advance": "-1h"}`, http.StatusBadRequest, "invalid duration: expected more than zero"},
		{http.MethodPost, `{"advance": "` + strings.Repeat("1", 1<<10) + `h"}`, http.StatusBadRequest, "too large"},
		{http.MethodPost, `{"advance": "1h"}` + "\n", http.StatusOK, `"steps":0}`},
	} {
		answer := httptest.NewRecorder()
		cloud.ServeHTTP(answer, httptest.NewRequest(c.method, awslocal.ClockPath, strings.NewReader(c.body)))
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s %s: want %d and %q, got %d and %q", c.method, c.body, c.status, c.want, answer.Code, answer.Body)
		}
	}
}
