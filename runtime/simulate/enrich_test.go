package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

var (
	callbacks    = enrich.Callbacks{Base: "https://api.example.com", Key: []byte("a key of the tests")}
	thirdParties = map[string]gateway.Callback{
		enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback},
	}
)

const (
	demo    = "enrich/demo-7"
	company = "https://example.com/company/7"
	found   = `{"jobId":"job-7","success":true,"data":{"name":"Acme"}}`
	gone    = `{"jobId":"job-7","success":false,"error":"the page is gone"}`
)

// Submit implements the third party: it derives the job's ID from the end of the job's subject, and records the job.
func (r *recorder) Submit(_ context.Context, job enrich.Job) (string, error) {
	r.note("submit", job.IdempotencyKey)
	r.mu.Lock()
	if r.jobs == nil {
		r.jobs = map[string]enrich.Job{}
	}
	r.jobs[job.Subject] = job
	submitting := r.submitting
	r.mu.Unlock()
	if submitting != nil {
		if err := submitting(job); err != nil {
			return "", err
		}
	}
	return "job-" + path.Base(job.Subject), nil
}

// callbackURL returns the third party's callback address for a subject.
func (r *recorder) callbackURL(subject string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[subject].CallbackURL
}

// callBack posts a callback to a separate gateway and returns the response. Faults can hit the calls of this gateway.
func (w *world) callBack(address, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	w.faults.invoked("gateway")
	config := w.by("gateway", w.aws(w.cloud.Client(w.faults.newProcess("gateway")), false))
	gateway, err := gateway.New(w.machines(), sqsqueue.New(sqs.NewFromConfig(config), w.queueURL, ""), dynamostore.New(dynamodb.NewFromConfig(config), table),
		gateway.Config{Callbacks: thirdParties, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	gateway.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, address, strings.NewReader(body)))
	return answer
}

func (w *world) wantCallBack(address, body string, want int) {
	w.t.Helper()
	if answer := w.callBack(address, body); answer.Code != want {
		w.t.Errorf("POST %s %s: want %d, got %d: %s", address, body, want, answer.Code, answer.Body)
	}
}

// enrich starts an execution that waits for the instance to enrich a subject.
func (w *world) enrich(instance, subject string) (execution string) {
	w.t.Helper()
	return w.startWorkflow("enrich.asl.json", strings.ReplaceAll(instance, "/", "-"), instance, map[string]string{"subject": subject, "reference": "demo-7"})
}

// TestAWorkflowWaitsForACallback plays every way in which the wait can end.
func TestAWorkflowWaitsForACallback(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play             func(w *world)
		state, path, end string
	}{
		"success": {func(w *world) {
			w.await(demo, "waiting")
			time.Sleep(5 * time.Minute)
			w.wantCallBack(w.effects.callbackURL(company), found, http.StatusAccepted)
		}, "succeeded", "Enrich", `"enriched":{"outcome":"succeeded","output":{"data":{"name":"Acme"},"job_id":"job-7","reference":"demo-7"},"state":["succeeded"],"tags":[]}`},
		"failure": {func(w *world) {
			w.await(demo, "waiting")
			w.wantCallBack(w.effects.callbackURL(company), gone, http.StatusAccepted)
		}, "failed", "Enrich NothingFound", `"enriched":{"outcome":"nothing_found","reason":"the page is gone"}`},
		"no callback": {func(w *world) {
			w.await(demo, "waiting")
		}, "expired", "Enrich NobodyCalledBack", "FAILED Enrich.NobodyCalledBack"},
		"at the last moment": {func(w *world) {
			w.await(demo, "waiting")
			time.Sleep(time.Until(w.effects.jobs[company].Deadline) - time.Millisecond)
			w.wantCallBack(w.effects.callbackURL(company), found, http.StatusAccepted)
		}, "succeeded", "Enrich", `"outcome":"succeeded"`},
		"a millisecond too late": {func(w *world) {
			w.await(demo, "waiting")
			time.Sleep(time.Until(w.effects.jobs[company].Deadline))
			w.wantCallBack(w.effects.callbackURL(company), found, http.StatusGone)
		}, "expired", "Enrich NobodyCalledBack", "FAILED Enrich.NobodyCalledBack"},
		"the third party says no": {func(w *world) {
			w.effects.submitting = func(enrich.Job) error { return statechart.Permanent(errors.New("out of credits")) }
		}, "not_accepted", "Enrich NotEnriched", "FAILED Enrich.NotAccepted"},
		"another waits for the job": {func(w *world) {
			w.enrich("enrich/other", "https://example.org/7")
			w.await("enrich/other", "waiting")
		}, "job_mixed_up", "Enrich NotEnriched", "FAILED Enrich.JobMixedUp"},
		"as much data as is taken": {func(w *world) {
			w.await(demo, "waiting")
			data := "[1" + strings.Repeat(",1", enrich.DataBytesMax/2-2) + " ]" // small numbers need the most room in an item
			w.wantCallBack(w.effects.callbackURL(company), strings.Replace(found, `{"name":"Acme"}`, data, 1), http.StatusAccepted)
		}, "succeeded", "Enrich", "1,1,1,1,1"},
		"too much data": {func(w *world) {
			w.await(demo, "waiting")
			w.wantCallBack(w.effects.callbackURL(company), strings.Replace(found, "Acme", strings.Repeat("A", enrich.DataBytesMax), 1), http.StatusAccepted)
		}, "failed", "Enrich NothingFound", "bytes of data, but the limit is 98304"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, options{}, func(w *world) {
				before := name == "the third party says no" || name == "another waits for the job"
				if before {
					c.play(w)
				}
				execution := w.enrich(demo, company)
				if !before {
					c.play(w)
				}
				if way, end := w.ended(execution); way != c.path || !strings.Contains(end, c.end) {
					t.Errorf("want %s and %s, got %s and %.500s", c.path, c.end, way, end)
				}
				time.Sleep(time.Hour)
				r := w.record(demo)
				if !slices.Equal(r.State, []string{c.state}) || len(r.Tokens) > 0 || owing(r) > 0 || r.Error != nil {
					t.Errorf("want %s and no tokens, no outbox and no error left, got %v, %d, %d and %v", c.state, r.State, len(r.Tokens), owing(r), r.Error)
				}
				if parked := w.deadLetters(); parked != "0" {
					t.Errorf("want nothing parked, got %s", parked)
				}
			})
		})
	}
}

// TestOneOfAHundredReplaysIsAccepted sends the same callback a hundred times at once, and again whenever the response
// may have changed.
func TestOneOfAHundredReplaysIsAccepted(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		execution := w.enrich(demo, company)
		w.await(demo, "waiting")
		address := w.effects.callbackURL(company)
		w.wantCallBack(address, `{"success":true,"data":{}}`, http.StatusBadRequest)
		w.wantCallBack(address, strings.Replace(found, "job-7", "job-8", 1), http.StatusNotFound)
		w.wantCallBack(strings.Replace(address, "demo-7", "demo-8", 1), found, http.StatusNotFound)
		w.wantCallBack(address[:len(address)-1], found, http.StatusNotFound)

		codes := make([]int, 100)
		var wait sync.WaitGroup
		for i := range codes {
			wait.Go(func() { codes[i] = w.callBack(address, found).Code })
		}
		wait.Wait()
		taken := 0
		for _, code := range codes {
			if code == http.StatusAccepted {
				taken++
			} else if code != http.StatusConflict {
				t.Errorf("want 202 or 409, got %d", code)
			}
		}
		if taken != 1 {
			t.Errorf("want one callback accepted, got %d", taken)
		}
		if way, end := w.ended(execution); way != "Enrich" || !strings.Contains(end, `"name":"Acme"`) {
			t.Errorf("want the execution to continue with the data, got %s and %s", way, end)
		}
		w.wantCallBack(address, found, http.StatusConflict)
		w.wantCallBack(address, gone, http.StatusConflict)
		record := w.record(demo)
		if applied := len(record.History); applied != 3 || record.Ignored != 0 {
			t.Errorf("want three transitions and nothing ignored, got %d and %d: %+v", applied, record.Ignored, record.History)
		}

		// The third party's ID also finds the instance.
		answer := httptest.NewRecorder()
		w.gateway.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/aliases/enricher/job-7", nil))
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"instance":"enrich/demo-7"`) {
			t.Errorf("want enrich/demo-7 by its alias, got %d: %s", answer.Code, answer.Body)
		}
		time.Sleep(time.Until(w.effects.jobs[company].Deadline))
		w.wantCallBack(address, found, http.StatusGone)
	})
}

// TestACallbackBeforeTheJobIsStoredIsNotLost makes the third party call back during the Submit call.
func TestACallbackBeforeTheJobIsStoredIsNotLost(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		attempts := 0
		w.effects.submitting = func(job enrich.Job) error {
			attempts++
			w.wantCallBack(job.CallbackURL, found, http.StatusServiceUnavailable)
			if attempts == 1 {
				return errors.New("the connection broke") // the instance is stored now, unsettled
			}
			return nil
		}
		execution := w.enrich(demo, company)
		w.await(demo, "waiting")
		if attempts != 2 {
			t.Errorf("want two attempts, got %d", attempts)
		}
		w.wantCallBack(w.effects.callbackURL(company), found, http.StatusAccepted)
		if way, end := w.ended(execution); way != "Enrich" || !strings.Contains(end, `"outcome":"succeeded"`) {
			t.Errorf("got %s and %s", way, end)
		}
	})
}

// TestNothingRunsWhileAWorkflowWaits counts the calls during a wait. It stops before EventBridge Scheduler sends the
// timer to the delay queue, which happens shortly before the end of the wait.
func TestNothingRunsWhileAWorkflowWaits(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		w.enrich(demo, company)
		w.await(demo, "waiting")
		time.Sleep(time.Second)
		calls, invoked := w.faults.totals()
		time.Sleep(27 * time.Minute)
		if c, i := w.faults.totals(); c != calls || i != invoked {
			t.Errorf("want no call to AWS and no invocation in 27 minutes, got %d and %d", c-calls, i-invoked)
		}
	})
}

// totals returns the number of calls and invocations so far.
func (f *faults) totals() (calls, invocations int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.invocations {
		invocations += n
	}
	return len(f.calls), invocations
}

// TestACallbackSurvivesAFaultAtEveryCall plays a successful callback with each kind of fault at each AWS call of
// consumer, forwarder and gateway. The third party retries its callback while it gets an error.
func TestACallbackSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	play := func(w *world) string {
		execution := w.enrich(demo, company)
		w.await(demo, "waiting")
		time.Sleep(time.Minute)
		code := http.StatusServiceUnavailable
		for code == http.StatusServiceUnavailable {
			code = w.callBack(w.effects.callbackURL(company), found).Code
			time.Sleep(time.Second)
		}
		// After a fault, an earlier try of the callback may have been accepted.
		taken := code == http.StatusAccepted || code == http.StatusConflict && w.faults.at > 0
		way, end := w.ended(execution)
		time.Sleep(time.Hour)
		r := w.record(demo)
		return fmt.Sprint(taken, " ", way, " ", strings.Contains(end, `"name":"Acme"`), " ", r.State, len(r.Tokens), owing(r), r.Error, r.Ignored, len(r.History),
			w.effects.distinct("submit"))
	}
	const want = "true Enrich true [succeeded] 0 0 <nil> 0 3 1"
	quiet := &faults{}
	inWorld(t, options{faults: quiet}, func(w *world) {
		if got := play(w); got != want {
			t.Errorf("without faults: want %s, got %s", want, got)
		}
	})
	calls := len(quiet.calls)
	if calls < 12 {
		t.Fatalf("only %d calls to AWS: %v", calls, quiet.calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				inWorld(t, options{faults: hit}, func(w *world) {
					if got := play(w); got != want {
						t.Errorf("call %d, %s: want %s, got %s", at, hit.hit(), want, got)
					}
				})
			}
		})
	}
}

// TestTheAliasTakenEventHasTheHostsName compares the constants, because the machine does not import the host.
func TestTheAliasTakenEventHasTheHostsName(t *testing.T) {
	t.Parallel()
	if enrich.AliasTaken != durable.AliasTaken {
		t.Errorf("want %s, got %s", durable.AliasTaken, enrich.AliasTaken)
	}
}
