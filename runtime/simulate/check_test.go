package simulate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/waking"
	"github.com/settle-run/settle/runtime/statechart"
)

// check checks the guarantees at the end of a run.
func (s *simulation) check() {
	sends, tokens := map[string]string{}, map[string]wait{}
	ends := s.ends()
	s.arrivals = s.ledger.sent(s.names())
	var replays []*replay
	for _, name := range s.names() {
		id, err := instances.ParseID(name)
		if err != nil {
			s.t.Fatal(err)
		}
		record := s.load(name)
		if record.Revision == 0 {
			s.checkLost(name)
		}
		record.Outbox = slices.DeleteFunc(record.Outbox, func(e statechart.Effect) bool { return s.ledger.isParkedBefore(name, e) })
		if owing(record) > 0 {
			s.problem("%s still has an outbox: %+v", name, record.Outbox)
		}
		s.checkRest(record)
		record.Tokens = slices.DeleteFunc(record.Tokens, func(k instances.Token) bool { return k.Expired })
		// An expired token may remain, because the message that reports it to the instance may be parked.
		if len(record.Tokens) > 0 && !s.plan.denies { // a missing permission may prevent the check of a token
			s.problem("%s still has tokens: %+v", name, record.Tokens)
		}
		if s.hasLost(name) {
			s.count("instances whose items have expired", 1)
			continue // the state of the instance is lost
		}
		queues := s.ledger.of(name)
		r := &replay{simulation: s, name: name, machine: s.versions[id.Machine][0], record: s.recalled(record), queues: queues, messages: slices.Concat(queues...), tried: &tried{deadEnds: map[uint64]bool{}}, seen: map[string]bool{}, sends: map[string]string{}, tokens: map[string]wait{}, spawned: map[string]json.RawMessage{}, left: map[string]time.Time{}, awaited: map[string]string{}, aliases: map[string]bool{}, asked: map[string]string{}, failures: map[string]bool{}, ends: ends}
		r.rescheduled = slices.DeleteFunc(slices.Clone(r.messages), func(m accepted) bool { return !strings.Contains(m.body, `"$retries"`) })
		r.version()
		end, err := r.play()
		if err != nil {
			s.problem("%s: %v\n  its history:\n%s", name, err, r.historyText())
		}
		replays = append(replays, end)
		for id, to := range end.sends {
			sends[id] = to
		}
		for _, task := range end.tokens {
			tokens[task.execution] = task
		}
	}
	s.checkOperations()
	s.checkSends(sends)
	s.checkFamily(replays)
	s.checkAliases(replays)
	s.checkWorkflows(replays)
	s.countEnds(replays, ends)
	s.countFields()
	s.checkExecutions(ends, tokens)
	s.checkQueues()
	s.checkInnocents()
}

// checkRest checks that an instance needs no further message: the queues are empty by now, and nothing is scheduled. In
// runs with operators, it also checks that the item expires if, and only if, the instance is forgotten and not kept.
func (s *simulation) checkRest(record instances.Record) {
	if record.Revision == 0 || s.plan.denies {
		return
	}
	stored, err := waking.Of(s.machines, record)
	if err != nil { // the new version stored the item
		stored, err = waking.Of(s.deployed, record)
	}
	if err == nil {
		err = stored.Check(nil, nil)
	}
	if err != nil {
		s.problem("nothing wakes %s: %v", record.Instance, err)
	}
	if s.plan.operators && record.ExpireAt.IsZero() == (record.Forgotten && !record.Kept) {
		s.problem("%s expires at %v, and is forgotten: %v, kept: %v", record.Instance, record.ExpireAt, record.Forgotten, record.Kept)
	}
}

// noEnd is part of the reason for parking an event after processes died in too many of its tries. abandonedMax is the
// default limit of such tries.
const (
	noEnd        = "the process died during the attempt"
	abandonedMax = 10
)

// checkInnocents checks the events that were parked because processes died in too many of their tries. The parking is
// correct if the instance kills processes. It is also correct if the number of processes that died or froze is at least
// an event's maximum number of tries.
func (s *simulation) checkInnocents() {
	died, triesMax := s.died(), cmp.Or(s.plan.config.AbandonedMax, abandonedMax)
	for _, name := range s.names() {
		for _, message := range slices.Concat(s.ledger.of(name)...) {
			if message.isHopeless() {
				continue // the dead-letter queue may have been unreachable during all tries
			}
			if n, _ := retriesOf(message); n > 0 {
				s.count("messages of the runtime scheduled again", 1)
			}
			for _, reason := range s.ledger.parked[message.parkingID()] {
				if strings.Contains(reason, noEnd) && !s.lab.killers[name] && died < triesMax {
					s.problem("%s was parked for %s, but the instance kills no process, and only %d have died or frozen: %s", message.body, name, died, reason)
				}
			}
		}
	}
}

// countEnds adds the outcomes of a run, such as tasks that timed out, to the counts. The director counts the faults.
func (s *simulation) countEnds(replays []*replay, ends map[string]*sfn.DescribeExecutionOutput) {
	for _, end := range ends {
		if timedOut(end) {
			s.count(countTaskTimedOut, 1)
		}
	}
	for _, r := range replays {
		if r.instance == nil {
			continue
		}
		s.count("instances", 1)
		s.count("steps", len(r.record.History))
		if r.record.Parent != nil {
			s.count("children", 1)
		}
		if r.instance.Status() == statechart.Stopped {
			s.count("children stopped", 1)
		}
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.count("messages parked", len(s.ledger.parked))
	s.count(countAbandoned, len(s.ledger.abandoned))
	s.count("messages sent again by an operator", s.redriven)
	for _, kind := range s.plan.strains {
		s.count(kind, 1)
	}
	for kind, is := range map[string]bool{countSkewed: s.plan.skewed, countTwoQueues: s.plan.queues == 2, countDeployed: s.plan.deploy > 0, countRolledBack: s.plan.rollBack > 0} {
		if is {
			s.count(kind, 1)
		}
	}
}

// names returns the instances of the plan and their children. All other instances that received messages are children.
func (s *simulation) names() []string {
	names := slices.Concat(s.plan.instances, s.ledger.groups())
	slices.Sort(names)
	return slices.Compact(names)
}

// checkSends checks that the events that arrived are the events that instances sent to one another.
func (s *simulation) checkSends(sends map[string]string) {
	for id, name := range s.arrivals {
		if sends[id] != name && !s.hasLost(id) && !s.wasUndone(id) {
			s.problem("%s got an event that no instance sent to it: %s", name, id)
		}
	}
	for id, to := range sends {
		if s.arrivals[id] == "" && !s.ledger.failed[id] {
			s.problem("the event %s never arrived at %s", id, to)
		}
	}
}

// ends returns the final descriptions of the executions, by ARN.
func (s *simulation) ends() map[string]*sfn.DescribeExecutionOutput {
	client, ends := sfn.NewFromConfig(s.truth()), map[string]*sfn.DescribeExecutionOutput{}
	for i := range s.plan.executions {
		arn := "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account + ":execution:" + waitName(i) + ":" + waitName(i)
		got, err := client.DescribeExecution(s.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &arn})
		if err != nil {
			s.t.Fatal(err)
		}
		ends[arn] = got
	}
	return ends
}

// timedOut reports whether the task of an execution timed out, or missed its heartbeats for too long.
func timedOut(end *sfn.DescribeExecutionOutput) bool {
	return end != nil && end.Status == "FAILED" && strings.HasSuffix(aws.ToString(end.Error), "Timeout")
}

// check checks that a workflow received the model's answer, or that its task timed out.
func (w *wait) check(end *sfn.DescribeExecutionOutput) error {
	said := aws.ToString(end.Error) + ": " + aws.ToString(end.Cause)
	var output struct{ Outcome string }
	switch {
	case timedOut(end):
		if w.answer != "" && w.answer != "expired" && !w.at.IsZero() && end.StopDate.Sub(w.at) > time.Hour {
			return fmt.Errorf("%s timed out at %v, but the answer %q was ready at %v", w.execution, end.StopDate, w.answer, w.at)
		}
		return nil
	case end.Status == "SUCCEEDED":
		if err := json.Unmarshal([]byte(aws.ToString(end.Output)), &output); err != nil || output.Outcome != w.answer {
			return fmt.Errorf("%s succeeded with %s, but expected %q", w.execution, aws.ToString(end.Output), w.answer)
		}
		return nil
	case w.parked && aws.ToString(end.Error) == durable.ErrorParked:
		return nil
	case end.Status == "FAILED" && w.answer != "" && strings.HasPrefix(said, w.answer):
		return nil
	default:
		return fmt.Errorf("%s is %s with %s, but expected %q", w.execution, end.Status, said, w.answer)
	}
}

// heartbeatLong is the timeout above which a task must not miss its heartbeats. The task's heartbeat timeout, if any,
// is then a quarter of its timeout: several days. No outage lasts that long.
const heartbeatLong = 29 * 24 * time.Hour

// checkExecutions checks that no workflow still waits, and that none timed out without a reason.
func (s *simulation) checkExecutions(ends map[string]*sfn.DescribeExecutionOutput, tokens map[string]wait) {
	for arn, end := range ends {
		if _, known := tokens[arn]; !known && !timedOut(end) {
			s.problem("%s is %s, but did not wait for an instance", arn, end.Status)
		}
		took, timeout := end.StopDate.Sub(*end.StartDate), s.timeoutOf(*end.Name)
		stopped := aws.ToString(end.Error) == "States.HeartbeatTimeout" && timeout > heartbeatLong
		if _, heard := tokens[arn]; heard && stopped && s.plan.receivesMax == 0 && !s.plan.denies { // In other runs, heartbeats may be given up on or denied.
			s.problem("%s got no heartbeat for days", arn)
		}
		// Heartbeats are late if a clock is off, if a service blocks the instance, under a strain, or after a roll-back to a
		// build that cannot read the instance.
		if timedOut(end) && s.director.faults == 0 && s.plan.rollBack == 0 && len(s.plan.strains) == 0 && !s.plan.skewed && len(s.lab.tries) == 0 && took < timeout {
			s.problem("%s timed out after %v without a fault, but may wait for %v", arn, took, timeout)
		}
	}
}

// checkQueues checks that the queues are empty.
func (s *simulation) checkQueues() {
	client := sqs.NewFromConfig(s.truth())
	for _, url := range append([]string{s.delayURL, s.executionsURL}, s.queueURLs...) {
		got, err := client.GetQueueAttributes(s.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
			if n := got.Attributes[name]; n != "0" {
				s.problem("%s of %s is %s at the end", name, url, n)
			}
		}
	}
}

func (s *simulation) timeoutOf(name string) time.Duration {
	for i, one := range s.plan.executions {
		if waitName(i) == name {
			return one.timeout
		}
	}
	return 0
}
