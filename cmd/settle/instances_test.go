package main

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/dynamostore"
)

func TestSignUpIsSentSeenAndFinished(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		contains(u.t, u.must("send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada"),
			"sent SIGN_UP to signup/42 as message ")

		time.Sleep(time.Hour)
		shown := u.must("get", "--local", "signup/42")
		contains(u.t, shown,
			"state     unverified.awaiting_verification\n",
			"since     2000-01-01 00:00:00 UTC (1h00m ago)\n",
			"status    active, settled: nothing runs until the next event or timer\n",
			"next      CANCEL, CHANGE_ADDRESS, RESEND, VERIFY\n",
			"timers    deadline of unverified: 2000-01-02 00:00:00 UTC (in 23h00m)\n",
			`"email": "ada@example.com"`,
			"history   01-01 00:00:00.000  SIGN_UP      new → unverified.registering\n",
			"done.invoke  unverified.registering → unverified.awaiting_verification\n")

		u.must("send", "--local", "signup/42", "VERIFY", "code="+u.mailedCode())
		shown = u.must("get", "--local", "signup/42")
		contains(u.t, shown, "state     active\n", "status    done\n", "next      nothing: further events are ignored\n",
			`"outcome": "active"`, "expires   2000-01-16 01:00:00 UTC (in 15d00h)\n")
		if strings.Contains(shown, "timers") {
			u.t.Errorf("expected no timers for a finished instance, got:\n%s", shown)
		}
	})
}

func TestGetAsJSONAgreesWithTheGateway(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada")

		gateway := u.overHTTP("/instances/signup/42")
		var shown map[string]any
		unmarshal(u.t, []byte(u.must("get", "--local", "-o", "json", "signup/42")), &shown)
		if !reflect.DeepEqual(shown, gateway) {
			u.t.Errorf("expected the gateway's %v, got %v", gateway, shown)
		}
		if want := []any{"CANCEL", "CHANGE_ADDRESS", "RESEND", "VERIFY"}; !reflect.DeepEqual(gateway["next_events"], want) {
			u.t.Errorf("expected the next events %v, got %v", want, gateway["next_events"])
		}
	})
}

func TestEventWithAnIDIsAppliedOnceAndOthersEachTime(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for _, id := range []string{"1", "2"} {
			u.must("send", "--local", "signup/"+id, "SIGN_UP", "email=ada@example.com", "name=Ada")
		}
		for range 2 {
			u.must("send", "--local", "signup/1", "RESEND")
		}
		contains(u.t, u.must("get", "--local", "signup/1"), `"resends": 2`)

		first := u.must("send", "--local", "--id", "again-1", "signup/2", "RESEND")
		if again := u.must("send", "--local", "--id", "again-1", "signup/2", "RESEND"); again != first {
			u.t.Errorf("expected the queue to know the event by its ID, got %q and then %q", first, again)
		}
		time.Sleep(10 * time.Minute) // The queue's deduplication ends after five minutes. The instance still knows the ID.
		if later := u.must("send", "--local", "--id", "again-1", "signup/2", "RESEND"); later == first {
			u.t.Errorf("expected another message after ten minutes, got %q", later)
		}
		contains(u.t, u.must("get", "--local", "signup/2"), `"resends": 1`)
	})
}

func TestListShowsSortsAndFilters(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		if got, want := u.must("list", "--local", "-o", "json"), "{\n  \"instances\": [],\n  \"source\": \"index\"\n}\n"; got != want {
			u.t.Errorf("expected %q of an empty table, got %q", want, got)
		}
		if got, want := u.must("list", "--local"), "No instances.\n"; got != want {
			u.t.Errorf("expected %q of an empty table, got %q", want, got)
		}
		for _, id := range []string{"2", "1"} {
			u.must("send", "--local", "signup/"+id, "SIGN_UP", "email=ada@example.com", "name=Ada")
		}
		u.must("send", "--local", "signup/1", "CANCEL")
		u.must("send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)

		all := u.must("list", "--local")
		contains(u.t, all,
			"INSTANCE         STATE                             STATUS  SINCE   NEXT TIMER\n"+
				"job/run-1-job-2  queued                            active  0s ago  pick_up, in 5m00s\n",
			"signup/1         cancelled                         done    0s ago  -\n"+
				"signup/2         unverified.awaiting_verification  active  0s ago  deadline, in 24h00m\n")
		for _, c := range []struct {
			flags []string
			want  []string
		}{
			{[]string{"--machine", "signup"}, []string{"signup/1", "signup/2"}},
			{[]string{"--state", "unverified"}, []string{"signup/2"}},
			{[]string{"--status", "done"}, []string{"signup/1"}},
			{[]string{"--status", "stopped"}, nil},
			{[]string{"--tag", "settled"}, []string{"job/run-1-job-2", "signup/2"}},
			{[]string{"--machine", "job", "--state", "in_progress"}, nil},
		} {
			for source, flags := range map[string][]string{"index": c.flags, "table": append([]string{"--consistent"}, c.flags...)} {
				names, page := u.list(flags...)
				if !reflect.DeepEqual(names, c.want) || page.Source != source || page.Cursor != "" {
					u.t.Errorf("%v: expected %v of the %s, got %v of %+v", flags, c.want, source, names, page)
				}
			}
		}
		limited := u.run("list", "--local", "--consistent", "--limit", "2")
		contains(u.t, limited.err, "settle: more than 2 instances: narrow the search or raise --limit\n")
		if lines := strings.Count(limited.out, "\n"); limited.code != command.ExitFailed || lines != 3 {
			u.t.Errorf("expected exit code 1 after a table of 2, got %d after:\n%s", limited.code, limited.out)
		}
	})
}

func TestSendReadsThePayloadFromStandardInput(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		got := u.runWith(`{"email": "ada@example.com", "name": "Ada"}`, "send", "--local", "-o", "json", "signup/42", "SIGN_UP", "--json", "-")
		var sent struct {
			MessageID string `json:"message_id"`
			Instance  string `json:"instance"`
			Type      string `json:"type"`
		}
		unmarshal(u.t, []byte(got.out), &sent)
		if got.code != command.ExitDone || sent.MessageID == "" || sent.Instance != "signup/42" || sent.Type != "SIGN_UP" {
			u.t.Errorf("expected the message ID of SIGN_UP to signup/42, got %+v, exit code %d, %q", sent, got.code, got.err)
		}
		contains(u.t, u.must("get", "--local", "signup/42"), `"name": "Ada"`)

		largest := producer.EventBytesMax - len(`{"note":"","type":"RESEND"}`)
		for _, c := range []struct {
			bytes, code int
			err         string
		}{
			{largest, command.ExitDone, "note"},
			{largest + 1, command.ExitRefused, "expected an event of at most 1040384 bytes with its $id, got 1040385: store the data elsewhere"},
			{producer.EventBytesMax, command.ExitRefused, "expected an event of at most 1040384 bytes, got a larger payload: store the data elsewhere"},
		} {
			got := u.runWith(`{"note":"`+strings.Repeat("x", c.bytes)+`"}`, "send", "--local", "signup/42", "RESEND", "--json", "-")
			contains(u.t, got.err, c.err)
			if got.code != c.code {
				u.t.Errorf("expected exit code %d for a text of %d bytes, got %d", c.code, c.bytes, got.code)
			}
		}
	})
}

func TestGetShowsWhyAnEventWasParked(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada")
		for i, c := range []struct{ body, event, want string }{
			{`{"type": "NOPE"}`, "NOPE", `NOPE, 0s ago: undeclared event type: chart signup has no event "NOPE"; it declares `},
			{`{"type": "VERIFY"}`, "VERIFY", `VERIFY, 0s ago: wrong payload: event "VERIFY" of chart signup: expected a code of 1 to 128 bytes, got 0`},
			{`VERIFY`, "", `0s ago: not an event: expected a JSON object such as {"type": "VERIFY"}, got 6 bytes`},
		} {
			_, err := sqs.NewFromConfig(u.stack.AWS()).SendMessage(u.t.Context(), &sqs.SendMessageInput{
				QueueUrl: aws.String(stack.Queue), MessageGroupId: aws.String("signup/42"), MessageDeduplicationId: aws.String(strconv.Itoa(i)),
				MessageBody: &c.body,
			})
			if err != nil {
				u.t.Fatal(err)
			}
			synctest.Wait()
			contains(u.t, u.must("get", "--local", "signup/42"), "parked    "+c.want)
			gateway, want := u.overHTTP("/instances/signup/42")["parked"], map[string]any{"at": "2000-01-01T00:00:00Z", "event": c.event}
			if !reflect.DeepEqual(gateway, want) {
				u.t.Errorf("expected the gateway to show %v, got %v", want, gateway)
			}
		}
		contains(u.t, u.log.String(), "ERR event parked instance=signup/42")
	})
}

func TestGetFindsAnInstanceByItsAlias(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada")
		const alias = "enricher/job-7"
		store := dynamostore.New(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table)
		owner, err := store.Load(u.t.Context(), instances.ID{Machine: "signup", ID: "42"})
		if err == nil {
			err = store.Claim(u.t.Context(), alias, owner.Instance, owner.CreatedAt, owner.Revision)
		}
		if err != nil {
			u.t.Fatal(err)
		}
		if got, want := u.must("get", "--local", "--alias", alias), u.must("get", "--local", "signup/42"); got != want || !strings.HasPrefix(got, "signup/42\n") {
			u.t.Errorf("by %s: expected\n%s\ngot\n%s", alias, want, got)
		}
		var shown map[string]any
		unmarshal(u.t, []byte(u.must("get", "--local", "-o", "json", "--alias", alias)), &shown)
		if gateway := u.overHTTP("/aliases/" + alias); !reflect.DeepEqual(shown, gateway) {
			u.t.Errorf("by %s: expected the gateway's %v, got %v", alias, gateway, shown)
		}
	})
}

func TestGetShowsWaitingTasksButNoToken(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)
		_, err := sqs.NewFromConfig(u.stack.AWS()).SendMessage(u.t.Context(), &sqs.SendMessageInput{
			QueueUrl: aws.String(stack.Queue), MessageGroupId: aws.String("job/run-1-job-2"), MessageDeduplicationId: aws.String("1"),
			MessageBody: aws.String(`{"type": "settle.wait", "$task": {"token": "AAAA-secret", "state": "Queued", "timeoutSeconds": 600}}`),
		})
		if err != nil {
			u.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		text, asJSON := u.must("get", "--local", "job/run-1-job-2"), u.must("get", "--local", "-o", "json", "job/run-1-job-2")
		contains(u.t, text, "waits     a task for Queued since 2000-01-01 00:00:00 UTC (1m00s ago), until 2000-01-01 00:10:00 UTC (in 9m00s)\n")
		gateway, want := u.overHTTP("/instances/job/run-1-job-2")["waits"], []any{map[string]any{
			"name": "Queued", "since": "2000-01-01T00:00:00Z", "deadline": "2000-01-01T00:10:00Z",
		}}
		if !reflect.DeepEqual(gateway, want) {
			u.t.Errorf("expected the gateway to show %v, got %v", want, gateway)
		}
		if strings.Contains(text+asJSON, "AAAA-secret") {
			u.t.Errorf("expected no token, got:\n%s\n%s", text, asJSON)
		}
	})
}

// overHTTP returns the gateway's response to a GET.
func (u user) overHTTP(path string) map[string]any {
	u.t.Helper()
	answer, err := u.stack.HTTPClient().Get(u.stack.HTTPURL() + path)
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		u.t.Fatalf("expected 200, got %d and %v", answer.StatusCode, err)
	}
	var keys map[string]any
	unmarshal(u.t, body, &keys)
	return keys
}

func unmarshal(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}
