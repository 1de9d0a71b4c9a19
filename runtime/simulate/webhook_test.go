package simulate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/instances"
)

// webhookExamples is where `make test` installs real webhooks of api.github.com.
const webhookExamples = "testdata/npm/node_modules/@octokit/webhooks-examples/api.github.com/index.json"

// example is one workflow_job webhook, reduced to the data that the test uses.
type example struct {
	payload  json.RawMessage
	instance string
	status   string
	// conclusion is empty until the job has completed.
	conclusion string
}

func readExamples(t *testing.T) []example {
	t.Helper()
	text, err := os.ReadFile(webhookExamples)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the npm package @octokit/webhooks-examples is not installed: run `make test`")
	}
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	var examples []example
	for _, event := range events {
		if event.Name != "workflow_job" {
			continue
		}
		for _, payload := range event.Examples {
			var content struct {
				Job struct {
					ID         int64  `json:"id"`
					RunID      int64  `json:"run_id"`
					Status     string `json:"status"`
					Conclusion string `json:"conclusion"`
				} `json:"workflow_job"`
			}
			if err := json.Unmarshal(payload, &content); err != nil {
				t.Fatal(err)
			}
			examples = append(examples, example{
				payload: payload, instance: fmt.Sprintf("job/run-%d-job-%d", content.Job.RunID, content.Job.ID),
				status: content.Job.Status, conclusion: content.Job.Conclusion,
			})
		}
	}
	if len(examples) < 8 {
		t.Fatalf("expected at least 8 examples of workflow_job, got %d", len(examples))
	}
	return examples
}

// expected returns the expected state of each instance. A job completes once, so the state is the first conclusion in
// the instance's payloads. Without a conclusion, the state is the most advanced status.
func expected(examples []example) map[string]string {
	progress := []string{"waiting", "queued", "in_progress"}
	states := map[string]string{}
	for _, e := range examples {
		known := states[e.instance]
		switch {
		case known != "" && !slices.Contains(progress, known):
		case e.conclusion != "":
			states[e.instance] = e.conclusion
		case slices.Index(progress, e.status) > slices.Index(progress, known):
			states[e.instance] = e.status
		}
	}
	return states
}

// TestEveryExampleWebhookEndsWhereItsPayloadSays delivers GitHub's examples, signed, in several orders.
func TestEveryExampleWebhookEndsWhereItsPayloadSays(t *testing.T) {
	t.Parallel()
	inOrder := readExamples(t)
	reversed := slices.Clone(inOrder)
	slices.Reverse(reversed)
	var twice []example
	for _, e := range inOrder {
		twice = append(twice, e, e)
	}

	byIndex := func(i int, _ example) string { return fmt.Sprintf("delivery-%d", i) }
	byPayload := func(_ int, e example) string {
		return fmt.Sprintf("delivery-%d", slices.IndexFunc(inOrder, func(o example) bool { return string(o.payload) == string(e.payload) }))
	}
	for _, test := range []struct {
		name       string
		deliveries []example
		deliveryID func(int, example) string
	}{
		{"in order", inOrder, byIndex},
		{"in reverse order", reversed, byIndex},
		{"each twice, redelivered under the same delivery ID", twice, byPayload},
		{"each twice, sent again under another delivery ID", twice, byIndex},
		{"all, then all again", append(slices.Clone(inOrder), inOrder...), byIndex},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			deliverExamples(t, test.deliveries, test.deliveryID)
		})
	}
	for i, e := range inOrder {
		t.Run(fmt.Sprintf("example %d alone", i), func(t *testing.T) {
			t.Parallel()
			deliverExamples(t, []example{e}, byIndex)
		})
	}
}

func deliverExamples(t *testing.T, deliveries []example, deliveryID func(int, example) string) {
	t.Helper()
	inWorld(t, options{job: job.Config{Labels: exampleLabels}}, func(w *world) {
		for i, e := range deliveries {
			w.deliver(deliveryID(i, e), "workflow_job", e.payload)
		}
		time.Sleep(time.Minute) // less than the five minutes after which a runner is replaced
		for instance, want := range expected(deliveries) {
			record := w.record(instance)
			if len(record.State) != 1 || record.State[0] != want {
				w.t.Errorf("%s: want it in %q, as its payloads say, got %v with history %+v", instance, want, record.State, record.History)
			}
			if launched := countLaunches(record.History); launched > 1 {
				w.t.Errorf("%s: want at most one runner, got %d launches", instance, launched)
			}
		}
		if parked := w.deadLetters(); parked != "0" {
			w.t.Errorf("want every webhook accepted, got %s parked", parked)
		}
	})
}

func countLaunches(history []instances.Transition) int {
	launches := 0
	for _, h := range history {
		if slices.Contains(h.To, "launching") {
			launches++
		}
	}
	return launches
}
