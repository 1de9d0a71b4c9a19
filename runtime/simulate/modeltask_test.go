package simulate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds waiting tasks to the sequential model.

// wait is the model's state of a waiting task.
type wait struct {
	name, execution string
	// answer is the task's answer: "" while it waits, or "expired" if the instance learnt that the task no longer
	// waits.
	answer string
	at     time.Time
	// parked means that the task's message was parked, and the task failed.
	parked bool
	// forgotten means that an operator has forgotten the instance since. If the queue gave up on the task's message,
	// and the operator sends it again, the instance takes it a second time and finds that the task no longer waits.
	forgotten bool
}

// addTask stores a waiting task.
func (r *replay) addTask(head head) error {
	if r.tokens[head.Task.Token].forgotten {
		return nil
	}
	task := wait{name: head.Task.Name, execution: head.Task.Execution, parked: r.tokens[head.Task.Token].parked}
	if r.instance.Status() != statechart.Active {
		task.answer = durable.ErrorEnded
	}
	effect, ok, err := r.instance.Resolving(task.name, statechart.Event{Type: head.Type})
	if err != nil {
		return err
	}
	if ok {
		if r.failed {
			effect.Message = ""
		}
		task.answer = answerOf(effect)
	}
	if end := r.ends[task.execution]; end != nil && r.instance.Status() != statechart.Active { // an active instance may answer later
		if err := task.check(end); err != nil {
			return differ("%v", err)
		}
	}
	r.tokens[head.Task.Token] = task
	return nil
}

// parkTask records a task whose message was parked.
func (r *replay) parkTask(message accepted) {
	var head head
	if err := json.Unmarshal([]byte(message.body), &head); err == nil && head.Task != nil {
		r.tokens[head.Task.Token] = wait{name: head.Task.Name, execution: head.Task.Execution, answer: durable.ErrorParked, parked: true}
	}
}

// abandonTask records a task whose message the queue gave up on. The loop fails a task before it parks the task's
// message. If the parking fails, the task has failed although nothing was parked.
func (r *replay) abandonTask(message accepted) {
	if message.head().Type != durable.WaitEvent {
		return
	}
	if _, _, reason := r.examine(message); reason != nil {
		r.parkTask(message)
	}
}

// expireTask applies a message about a task that may no longer wait.
func (r *replay) expireTask(head head) error {
	if !r.expired {
		return nil
	}
	data := map[string]any{}
	for token, task := range r.tokens {
		if keyOf(token) != head.Token && task.execution != head.Execution {
			continue
		}
		data = map[string]any{"name": task.name, "execution": task.execution}
		if task.forgotten {
			continue
		}
		if end := r.ends[task.execution]; !timedOut(end) && !task.parked || task.answer == "expired" || r.at < len(r.record.History) && end.StopDate.After(r.record.History[r.at].At.Add(clockSkewMax)) {
			return differ("the task of %s cannot have expired", task.execution)
		}
		task.answer = "expired"
		r.tokens[token] = task
	}
	return r.report(durable.TokenExpired, data)
}

func keyOf(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:8])
}

func answerOf(effect statechart.Effect) string {
	if effect.Error != "" {
		return effect.Error + ": " + effect.Message
	}
	return effect.Outcome
}

func (r *replay) answer(answer string, concerns func(wait) bool) {
	for token, task := range r.tokens {
		if task.answer == "" && concerns(task) {
			task.answer = answer
			if r.at > 0 {
				task.at = r.record.History[r.at-1].At
			}
			r.tokens[token] = task
		}
	}
}
