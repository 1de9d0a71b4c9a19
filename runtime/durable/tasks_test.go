package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// workflow is a task of a Step Functions execution that waits for an instance.
type workflow struct {
	entered            time.Time
	timeout, heartbeat time.Duration // zero means none
	beaten             time.Time
	beats              int
	// answers lists the accepted answers, at most one.
	answers []string
}

// expired reports whether the task has timed out.
func (f *workflow) expired() bool {
	if len(f.answers) > 0 {
		return false
	}
	return f.timeout > 0 && time.Since(f.entered) >= f.timeout || f.heartbeat > 0 && time.Since(f.beaten) >= f.heartbeat
}

// wait starts a task with this token. It returns the "$task" value for the event that announces the task.
func (w *world) wait(token, name string, timeout, heartbeat time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workflows[token] = &workflow{entered: time.Now(), beaten: time.Now(), timeout: timeout, heartbeat: heartbeat}
	return fmt.Sprintf(`{"token": %q, "state": %q, "execution": "execution of %s", "enteredAt": %q, "timeoutSeconds": %d, "heartbeatSeconds": %d}`,
		token, name, strings.TrimPrefix(token, "secret-"), time.Now().UTC().Format(time.RFC3339Nano), int(timeout.Seconds()), int(heartbeat.Seconds()))
}

// answers returns the answers that the task received, or else "waits" or "expired".
func (w *world) answers(token string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch f := w.workflows[token]; {
	case len(f.answers) > 0:
		return fmt.Sprint(f.answers)
	case f.expired():
		return "expired"
	default:
		return "waits"
	}
}

func (p *process) Answer(ctx context.Context, token instances.Token, answer instances.Answer, repeat bool) error {
	return p.call(ctx, "Answer", token.Name, func() error {
		text := string(answer.Output)
		if answer.Error != "" {
			text = answer.Error + ": " + answer.Cause
		}
		f, known := p.workflows[token.Value.Reveal()]
		switch {
		case !known:
			return durable.ErrExpired
		case utf8.RuneCountInString(answer.Cause) > 32768 || len(answer.Output) > 262144:
			return errors.New("ValidationException") // Step Functions returns this error for a cause or an output that is too long.
		case len(f.answers) > 0 && repeat && f.answers[0] == text:
			return nil
		case len(f.answers) > 0 || f.expired():
			return durable.ErrExpired
		}
		f.answers = append(f.answers, text)
		return nil
	})
}

func (p *process) Heartbeat(ctx context.Context, token instances.Token) error {
	return p.call(ctx, "Heartbeat", token.Name, func() error {
		f := p.workflows[token.Value.Reveal()]
		if len(f.answers) > 0 || f.expired() {
			return durable.ErrExpired
		}
		f.beaten = time.Now()
		f.beats++
		return nil
	})
}

func TestATaskUnderANameWithoutAnswersFailsAtOnce(t *testing.T) {
	t.Parallel()
	const want = `wrong $task: expected under "name" or "state" a name under which chart parcel answers (HandOver, Delivery), got "Delivry": correct the name, or add a Resolution to the chart`
	for _, form := range []string{`{"type": "settle.wait", "$task": TASK}`, `{"type": "hurry", "$task": TASK}`} {
		inParcelWorld(t, func(t *testing.T, w *world) {
			body := strings.Replace(form, "TASK", w.wait("t1", "Delivry", 0, 0), 1)
			if err := w.machines.AcceptTask(instances.ID{Machine: "parcel", ID: "1"}, []byte(body)); !errors.Is(err, statechart.ErrPayload) || !strings.Contains(err.Error(), want) {
				t.Errorf("AcceptTask(%s): expected %s, got %v", form, want, err)
			}
			w.post(parcel1, body)
			w.run(t)
			w.wantAnswer(t, "t1", "[Settle.Parked: "+want+"]")
			if len(w.parked) != 1 {
				t.Errorf("expected one parked event, got %+v", w.parked)
			}
		})
	}
}

// Two events name one task: the first is applied, the second is parked. The task still gets the committed outcome.
func TestAParkedEventDoesNotFailTheTaskOfAnAppliedOne(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{0, time.Minute} {
		inParcelWorld(t, func(t *testing.T, w *world) {
			task := w.wait("t1", "Delivery", 0, 0)
			w.post(parcel1, `{"type": "hurry", "$task": `+task+`}`)
			w.runFor(t, apart)
			w.post(parcel1, `{"type": "unknown", "$task": `+task+`}`, `{"type": "finish", "item": "ball"}`)
			w.run(t)
			w.wantAnswer(t, "t1", delivered)
			w.wantNoTokens(t)
			if len(w.parked) != 1 {
				t.Errorf("want one parked event, got %+v", w.parked)
			}
		})
	}
}

// A new consumer has no client for tasks, while an instance holds tokens.
func TestAConsumerWithoutTokensAppliesEventsAndLeavesAnswersToTheNext(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.waitFor("t1", "Delivery", 0, time.Hour)
		w.runFor(t, time.Second)
		w.noTokens = true
		w.runFor(t, 30*time.Minute) // A heartbeat is due.
		w.post(parcel1, event("hurry", ""))
		w.runFor(t, time.Second)
		w.wantState(t, parcel1, "on_its_way")
		w.post(parcel1, event("finish", "ball"))
		w.runFor(t, time.Minute)
		w.wantState(t, parcel1, "delivered")
		if text := log.String(); !strings.Contains(text, "answering the task Delivery of parcel/1: this consumer has no client that answers tasks: set Ports.Tokens") || strings.Contains(text, "panic") {
			t.Errorf("want the cause and no panic in the log, got\n%s", text)
		}
		w.noTokens = false
		w.run(t)
		w.wantAnswer(t, "t1", delivered)
		w.wantNoTokens(t)
	})
}

// The first of two answers is denied for an hour. The second is denied once.
func TestTheSecondAnswerHasAnHourOfItsOwn(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "HandOver", 24*time.Hour, 0)
		w.waitFor("t2", "Delivery", 24*time.Hour, 0)
		w.runFor(t, time.Second)
		denied := 0
		w.refuse = func(call string) error {
			if call == "Answer Delivery" {
				denied++
			}
			if call == "Answer HandOver" || call == "Answer Delivery" && denied == 1 { // The execution's history lags for a second.
				return durable.ErrDenied
			}
			return nil
		}
		w.post(parcel1, event("hurry", ""), event("finish", "ball"))
		w.runFor(t, 3*time.Hour)
		w.wantAnswer(t, "t2", delivered)
		if n := w.counted("Answer Delivery"); n != 2 {
			t.Errorf("the second answer was tried %d times: %+v", n, w.load(parcel1).FailedEffects)
		}
	})
}

// Step Functions denies the first answer for almost an hour. Once it accepts that answer, it denies the next one for ten
// minutes.
func TestEachAnswerIsRetriedForAnHourOfItsOwn(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "HandOver", 24*time.Hour, 0)
		w.waitFor("t2", "HandOver", 24*time.Hour, 0)
		w.runFor(t, time.Second)
		began := time.Now()
		var accepted time.Time
		w.refuse = func(call string) error {
			switch {
			case call != "Answer HandOver":
			case time.Since(began) < 59*time.Minute, !accepted.IsZero() && time.Since(accepted) < 10*time.Minute:
				return durable.ErrDenied
			case accepted.IsZero():
				accepted = time.Now()
			}
			return nil
		}
		w.post(parcel1, event("hurry", ""))
		w.runFor(t, 3*time.Hour)
		if accepted.Sub(began) < time.Hour {
			t.Fatalf("the first answer was accepted after %v: the test proves nothing", accepted.Sub(began))
		}
		w.wantAnswer(t, "t1", handed)
		w.wantAnswer(t, "t2", handed)
	})
}

// The answers of one event take longer than an invocation.
func TestMoreAnswersThanFitIntoAnInvocationAreGiven(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		const tasks = 150
		for i := range tasks {
			w.waitFor(fmt.Sprint("t", i), "HandOver", 24*time.Hour, 0)
		}
		w.runFor(t, time.Second)
		w.latency = func(id string) time.Duration {
			if id == "HandOver" {
				return time.Second // Step Functions is slow.
			}
			return 0
		}
		w.post(parcel1, event("hurry", ""))
		w.runFor(t, time.Hour)
		for i := range tasks {
			w.wantAnswer(t, fmt.Sprint("t", i), handed)
		}
		w.wantNoTokens(t)
		if answers := w.counted("Answer HandOver"); answers != tasks {
			t.Errorf("want %d answers, each given once, got %d", tasks, answers)
		}
	})
}
