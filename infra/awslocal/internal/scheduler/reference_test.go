package scheduler

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// reference is a simple, slow Scheduler: it searches two lists every second. It defines the correct behaviour of the
// model. Times are seconds since the test began.
type reference struct {
	schedules   []*referenceSchedule
	invocations []*referenceInvocation
	made        int // number of schedules and invocations so far
}

type referenceSchedule struct {
	serial             int
	name               string
	at, every, end     int // `every` is zero for an at() schedule; `end` is zero without an EndDate
	started            int
	enabled, delete    bool
	hasDeadLetterQueue bool
	retries            int
	input              string
	fired              bool
	last               int // time of a rate's last invocation; negative if none
}

type referenceInvocation struct {
	serial   int
	schedule referenceSchedule // a copy from the start of the invocation
	attempts int
	due      int
}

func (r *reference) find(name string) *referenceSchedule {
	for _, s := range r.schedules {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (r *reference) remove(s *referenceSchedule) {
	r.schedules = slices.DeleteFunc(r.schedules, func(o *referenceSchedule) bool { return o == s })
}

func (s *referenceSchedule) due(now int) bool {
	if s.every == 0 {
		return s.enabled && !s.fired && s.at <= now
	}
	return s.enabled && now != s.last && s.next(now) == now && (s.end == 0 || now <= s.end)
}

// next returns when a schedule with a rate is next due: at `now` or later, but not at its latest invocation.
func (s *referenceSchedule) next(now int) int {
	next := s.started
	for next < now || next == s.last {
		next += s.every
	}
	return next
}

// tick performs the work of one second and returns the sent requests.
func (r *reference) tick(now int, fail func(string) bool) []string {
	type work struct {
		serial int
		do     func()
	}
	var sent []string
	attempt := func(i *referenceInvocation) {
		i.attempts++
		sent = append(sent, i.schedule.input)
		switch {
		case !fail(i.schedule.input):
		case i.attempts <= i.schedule.retries:
			i.due = now + 1<<(i.attempts-1)
			return
		case i.schedule.hasDeadLetterQueue:
			sent = append(sent, "dead letter of "+i.schedule.input)
		}
		r.invocations = slices.DeleteFunc(r.invocations, func(o *referenceInvocation) bool { return o == i })
		r.complete(i.schedule.serial, now)
	}
	var all []work
	for _, s := range r.schedules {
		if s.due(now) {
			all = append(all, work{s.serial, func() {
				s.fired, s.last = true, now
				r.made++
				i := &referenceInvocation{serial: r.made, schedule: *s}
				r.invocations = append(r.invocations, i)
				attempt(i)
			}})
		}
	}
	for _, i := range r.invocations {
		if i.due == now {
			all = append(all, work{i.serial, func() { attempt(i) }})
		}
	}
	slices.SortFunc(all, func(a, b work) int { return cmp.Compare(a.serial, b.serial) })
	for _, w := range all {
		w.do()
	}
	return sent
}

// complete deletes a completed schedule if ActionAfterCompletion says so.
func (r *reference) complete(serial, now int) {
	for _, i := range r.invocations {
		if i.schedule.serial == serial {
			return
		}
	}
	for _, s := range r.schedules {
		over := s.every == 0 && s.fired || s.every > 0 && s.end > 0 && s.next(now) > s.end
		if s.serial == serial && s.delete && s.enabled && over {
			r.remove(s)
			return
		}
	}
}

// pair runs a model and the reference side by side. Every operation applies to both, and their answers must match.
type pair struct {
	*rapid.T
	model   *Model
	ref     reference
	now     int
	failing map[string]bool // inputs that cannot be delivered
	inputs  int
	kept    recordtest.Kept
}

func (p *pair) time() time.Time { return epochTest.Add(time.Duration(p.now) * time.Second) }

func (p *pair) fail(input string) bool { return p.failing[input[:1]] }

// perform performs the model's due work and compares the result.
func (p *pair) perform() {
	want := p.ref.tick(p.now, p.fail)
	var got []string
	p.model.Advance(p.time())
	for firings := p.model.TakeFirings(); len(firings) > 0; firings = p.model.TakeFirings() {
		// Perform one firing at a time, so that a dead letter directly follows the last attempt.
		for i := 0; i < len(firings); i++ {
			var message sendMessage
			if err := wire.Decode(firings[i].Request, &message, "ValidationException"); err != nil {
				p.Fatal(err)
			}
			var failure *wire.Error
			name := message.MessageBody
			if message.QueueUrl == "dead" {
				var original sendMessage
				if err := wire.Decode([]byte(message.MessageBody), &original, "ValidationException"); err != nil {
					p.Fatal(err)
				}
				name = "dead letter of " + original.MessageBody
			} else if p.fail(name) {
				failure = wire.Errorf("ThrottlingException", "not now")
			}
			got = append(got, name)
			p.model.Finish(p.time(), firings[i].ID, failure)
			firings = slices.Insert(firings, i+1, p.model.TakeFirings()...)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		p.Fatalf("at %d s, sent (-want +got):\n%s", p.now, diff)
	}
	p.restart()
}

// restart replaces the model now and then with a model restored from its records.
func (p *pair) restart() {
	p.kept.Apply(p.model.TakeRecords())
	if rapid.IntRange(0, 3).Draw(p.T, "restart") > 0 {
		return
	}
	restored := New()
	if err := restored.Restore(p.kept.Each); err != nil {
		p.Fatal(err)
	}
	restored.Keep()
	p.model = restored
}

func (p *pair) call(method, name, body string, wantCode string) string {
	answer, err := p.model.Serve(p.time(), method, "/schedules"+name, url.Values{}, []byte(body))
	code := ""
	if err != nil {
		code = err.Code
	}
	if code != wantCode {
		p.Fatalf("%s %s: got %v, want %q", method, name, err, wantCode)
	}
	return string(answer)
}

// draw generates a definition. It returns the definition in the form of the API and in the form of the reference.
func (p *pair) draw(name string) (string, *referenceSchedule) {
	p.inputs++
	s := &referenceSchedule{
		name: name, enabled: rapid.IntRange(0, 4).Draw(p.T, "enabled") > 0, delete: rapid.Bool().Draw(p.T, "delete"),
		last: -1, hasDeadLetterQueue: rapid.Bool().Draw(p.T, "hasDeadLetterQueue"), retries: rapid.IntRange(0, 3).Draw(p.T, "retries"),
		input: fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "b"}).Draw(p.T, "kind"), p.inputs),
	}
	var overrides []string
	expression := "rate(1 minute)"
	if rapid.Bool().Draw(p.T, "once") {
		s.at = p.now + rapid.IntRange(-2, 10).Draw(p.T, "at")
		expression = at(time.Duration(s.at) * time.Second)
	} else {
		s.every, s.started = 60, p.now+rapid.IntRange(0, 5).Draw(p.T, "start")
		overrides = append(overrides, fmt.Sprintf("StartDate=%d", epochTest.Unix()+int64(s.started)))
		if rapid.Bool().Draw(p.T, "ends") {
			s.end = s.started + rapid.IntRange(1, 150).Draw(p.T, "end")
			overrides = append(overrides, fmt.Sprintf("EndDate=%d", epochTest.Unix()+int64(s.end)))
		}
	}
	overrides = append(overrides, "Target.Input="+string(wire.Encode(s.input)), fmt.Sprintf(`Target.RetryPolicy={"MaximumRetryAttempts":%d}`, s.retries))
	if s.hasDeadLetterQueue {
		overrides = append(overrides, `Target.DeadLetterConfig={"Arn":"`+deadARN+`"}`)
	}
	if !s.enabled {
		overrides = append(overrides, `State="DISABLED"`)
	}
	if s.delete {
		overrides = append(overrides, `ActionAfterCompletion="DELETE"`)
	}
	return body(expression, overrides...), s
}

func (p *pair) create(name string) {
	definition, s := p.draw(name)
	if p.ref.find(name) != nil {
		p.call("POST", "/"+name, definition, "ConflictException")
		return
	}
	p.call("POST", "/"+name, definition, "")
	p.ref.made++
	s.serial = p.ref.made
	p.ref.schedules = append(p.ref.schedules, s)
}

func (p *pair) update(name string) {
	definition, s := p.draw(name)
	old := p.ref.find(name)
	if old == nil {
		p.call("PUT", "/"+name, definition, "ResourceNotFoundException")
		return
	}
	p.call("PUT", "/"+name, definition, "")
	s.serial = old.serial
	// If the expression does not change, a one-time schedule that has fired does not fire again.
	s.fired = old.fired && s.every == 0 && old.every == 0 && s.at == old.at
	if s.every > 0 && old.every > 0 && s.started == old.started {
		s.last = old.last
	}
	*old = *s
}

func (p *pair) remove(name string) {
	if s := p.ref.find(name); s != nil {
		p.call("DELETE", "/"+name, "", "")
		p.ref.remove(s)
	} else {
		p.call("DELETE", "/"+name, "", "ResourceNotFoundException")
	}
}

func (p *pair) list() {
	var want []string
	for _, s := range p.ref.schedules {
		want = append(want, s.name)
	}
	slices.Sort(want)
	answer := p.call("GET", "", "", "")
	var got []string
	for _, part := range strings.Split(answer, `"Name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		got = append(got, name)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		p.Fatalf("listed (-want +got):\n%s", diff)
	}
}

// TestModel_behaves_like_the_reference makes random calls with random failures on a model and on the reference. Now and
// then it replaces the model with a model restored from the records.
func TestModel_behaves_like_the_reference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{T: t, model: New(), failing: map[string]bool{}, kept: recordtest.Kept{}}
		p.model.Keep()
		names := rapid.SampledFrom([]string{"p", "q", "r"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1, 2:
				p.create(names.Draw(t, "name"))
			case 3:
				p.update(names.Draw(t, "name"))
			case 4:
				p.remove(names.Draw(t, "name"))
			case 5:
				kind := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind")
				p.failing[kind] = !p.failing[kind]
			default:
				p.wait(rapid.SampledFrom([]int{1, 1, 2, 5, 70}).Draw(t, "seconds"))
				continue
			}
			p.perform()
			p.list()
		}
	})
}

func (p *pair) wait(seconds int) {
	for range seconds {
		p.now++
		if next, ok := p.model.Next(); ok && next.Before(p.time().Add(-time.Second)) {
			p.Fatalf("at %d s, Next says %v, which has passed", p.now, next)
		}
		p.perform()
	}
}
