package simulate_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	pickedUp   = "job/run-1-job-10"
	abandoned  = "job/run-1-job-11"
	registered = "signup/ada"
)

// deliver delivers a signed webhook as GitHub does.
func (w *world) deliver(deliveryID, event string, payload []byte) {
	w.t.Helper()
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write(payload)
	w.post("/webhooks/github", http.Header{
		"Content-Type":        {"application/json"},
		"X-Github-Event":      {event},
		"X-Github-Delivery":   {deliveryID},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}, payload, http.StatusAccepted)
}

// workflowJob delivers a workflow_job webhook in GitHub's form.
func (w *world) workflowJob(jobID int, status, conclusion string) {
	w.t.Helper()
	w.deliver(fmt.Sprintf("%d-%s", jobID, status), "workflow_job", mustJSON(w.t, map[string]any{
		"action": status,
		"workflow_job": map[string]any{
			"id": jobID, "run_id": 1, "run_attempt": 1, "name": "build", "workflow_name": "CI",
			"status": status, "conclusion": conclusion, "labels": []string{"self-hosted"},
			"html_url": "https://github.com/octo/hello/actions/runs/1",
		},
		"repository": map[string]any{"full_name": "octo/hello", "owner": map[string]any{"login": "octo"}},
	}))
}

// playDemo plays `make demo`: a job that is picked up, one that is never picked up, and a signup with one wrong code
// and a resend. It returns the outcomes.
func playDemo(w *world) map[string]outcome {
	w.workflowJob(10, "queued", "")
	w.workflowJob(11, "queued", "")
	w.send(registered, `{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`)

	w.await(pickedUp, "queued")
	w.workflowJob(10, "in_progress", "")

	const waiting = "unverified.awaiting_verification"
	w.await(registered, waiting)
	w.send(registered, `{"type": "VERIFY", "code": "000000"}`)
	w.await(registered, waiting, func(r instances.Record) bool { return signupContext(w, r).WrongCodes == 1 })
	w.send(registered, `{"type": "RESEND"}`)
	w.await(registered, waiting, func(r instances.Record) bool { return signupContext(w, r).Resends == 1 })
	w.send(registered, string(mustJSON(w.t, map[string]string{"type": "VERIFY", "code": w.effects.code("ada@example.com")})))

	w.await(pickedUp, "in_progress")
	w.workflowJob(10, "completed", "success")

	outcomes := map[string]outcome{}
	for instance, state := range map[string]string{pickedUp: "success", abandoned: "not_picked_up", registered: "active"} {
		outcomes[instance] = outcomeOf(w, w.await(instance, state))
	}
	return outcomes
}

func signupContext(w *world, r instances.Record) signup.Context {
	w.t.Helper()
	var snapshot struct{ Context signup.Context }
	if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	return snapshot.Context
}

// outcome is the part of an instance that must not depend on crashes.
type outcome struct {
	State   []string
	Status  statechart.Status
	Output  string
	Steps   int64
	Ignored int64
	// History lists event, from and to of each transition.
	History []string
	Outbox  int
	Error   *instances.Failure
}

func outcomeOf(w *world, r instances.Record) outcome {
	w.t.Helper()
	var snapshot struct {
		Steps  int64
		Output json.RawMessage
	}
	if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	var output map[string]any
	if err := json.Unmarshal(snapshot.Output, &output); err != nil {
		w.t.Fatal(err)
	}
	delete(output, "account_id") // the account ID contains the idempotency key, which contains the time of the run
	var history []string
	for _, h := range r.History {
		history = append(history, fmt.Sprintf("%s: %v -> %v", h.Event, h.From, h.To))
	}
	return outcome{
		State: r.State, Status: r.Status, Output: string(mustJSON(w.t, output)), Steps: snapshot.Steps,
		Ignored: r.Ignored, History: history, Outbox: owing(r), Error: r.Error,
	}
}

// TestDemoSurvivesAFaultAtEveryCall plays the demo with each kind of fault at each AWS call of consumer and forwarder.
// It expects the same outcomes.
func TestDemoSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	quiet := &faults{}
	var want map[string]outcome
	inWorld(t, options{faults: quiet}, func(w *world) { want = playDemo(w) })
	checkDemo(t, want)
	calls := slices.Clone(quiet.calls)
	if len(calls) < 30 {
		t.Fatalf("the demo made only %d calls to AWS; is it played at all?", len(calls))
	}

	for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
		for _, retries := range []bool{false, true} {
			if retries && !slices.Contains([]fault{failBefore, loseAnswer, throttle}, kind) {
				continue // these faults cause no retry: the call succeeds in the end, or its process is dead
			}
			t.Run(fmt.Sprintf("%v, SDK retries %v", kind, retries), func(t *testing.T) {
				t.Parallel()
				for at := 1; at <= len(calls); at += stride() {
					hit := &faults{at: at, kind: kind}
					inWorld(t, options{faults: hit, sdkRetries: retries}, func(w *world) {
						got := playDemo(w)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%v at call %d (%s): outcomes differ (-without, +with the fault):\n%s", kind, at, hit.hit(), diff)
						}
						checkServices(w, fmt.Sprintf("%v at call %d (%s)", kind, at, hit.hit()))
					})
				}
			})
		}
	}
}

// checkDemo checks the outcomes of the run without faults. The other runs are only compared with it.
func checkDemo(t *testing.T, outcomes map[string]outcome) {
	t.Helper()
	wantHistory := []string{
		"SIGN_UP: [new] -> [unverified.registering]",
		"done.invoke.unverified.registering: [unverified.registering] -> [unverified.awaiting_verification]",
		"VERIFY: [unverified.awaiting_verification] -> [unverified.awaiting_verification]",
		"RESEND: [unverified.awaiting_verification] -> [unverified.registering]",
		"done.invoke.unverified.registering: [unverified.registering] -> [unverified.awaiting_verification]",
		"VERIFY: [unverified.awaiting_verification] -> [provisioning]",
		"done.invoke.provisioning: [provisioning] -> [active]",
	}
	if diff := cmp.Diff(wantHistory, outcomes[registered].History); diff != "" {
		t.Errorf("history of %s (-want +got):\n%s", registered, diff)
	}
	wantOutputs := map[string]string{
		pickedUp:   `{"conclusion":"success","html_url":"https://github.com/octo/hello/actions/runs/1","launches":1,"outcome":"success"}`,
		abandoned:  `{"html_url":"https://github.com/octo/hello/actions/runs/1","launches":3,"outcome":"not_picked_up"}`,
		registered: `{"outcome":"active"}`,
	}
	for instance, want := range wantOutputs {
		if got := outcomes[instance].Output; got != want {
			t.Errorf("output of %s: want %s, got %s", instance, want, got)
		}
	}
}

// checkServices checks that a fault did not change the number of idempotency keys in the calls of services. There are
// four keys for runners, two for mails and one for the account. It also checks that nothing was parked.
func checkServices(w *world, fault string) {
	w.t.Helper()
	for service, want := range map[string]int{"launch": 4, "mail": 2, "provision": 1} {
		if got := w.effects.distinct(service); got != want {
			w.t.Errorf("%s: want %d distinct calls of %s, got %d: %v", fault, want, service, got, w.effects.keys)
		}
	}
	if parked := w.deadLetters(); parked != "0" {
		w.t.Errorf("%s: want nothing parked, got %s messages", fault, parked)
	}
}

// owing returns the number of effects that are still to be performed. An outbox that the loop has left in the record
// does not count: see instances.Record.IsLeft.
func owing(record instances.Record) int {
	if !record.Owes() {
		return 0
	}
	return len(record.Outbox)
}

// mustJSON marshals a value of the test.
func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
