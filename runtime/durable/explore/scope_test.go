package explore_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/instances"
)

// The flags of the search.
var (
	scopeFlag    = flag.String("scope", "short", "how much to search: short (25 seconds of CPU time) or full (more faults, scenarios and pauses)")
	scenarioFlag = flag.String("scenario", "", "the names of the scenarios to search, separated by commas (default: all)")
	callsFlag    = flag.Bool("calls", false, "show all calls in schedules; such schedules cannot be replayed")
	faultsFlag   = flag.Int("faults", -1, "maximum number of faults (default: defined by the scope)")
	pausesFlag   = flag.Int("pauses", 0, "with -faults: maximum number of pauses, in which a process waits while others run")
)

// selected returns the scopes that the flags select.
func selected(t *testing.T) (scopes []scope) {
	t.Helper()
	isShort := *scopeFlag == "short"
	if !isShort && *scopeFlag != "full" {
		t.Fatalf("-scope: expected short or full, got %q", *scopeFlag)
	}
	names := strings.FieldsFunc(*scenarioFlag, func(r rune) bool { return r == ',' })
	for _, s := range scenarios() {
		switch {
		case len(names) > 0 && !slices.Contains(names, s.name), len(names) == 0 && isShort && s.isLong:
			continue
		case *faultsFlag >= 0:
			scopes = append(scopes, scope{s, *faultsFlag, *pausesFlag, max(1, s.nested)})
		case isShort:
			scopes = append(scopes, scope{s, 1, 0, max(1, s.nested)})
		default:
			scopes = append(scopes, scope{s, max(1, s.faults), 0, max(1, s.nested)})
			if !s.isLong {
				scopes = append(scopes, scope{s, 1, 1, max(1, s.nested)})
			}
		}
	}
	if len(scopes) == 0 {
		t.Fatalf("expected in -scenario the names of scenarios, got %q", *scenarioFlag)
	}
	return scopes
}

// scenario is the start of a search, with the limits of its actions.
type scenario struct {
	name string
	// text lists the events that are queued at the start, see parsePosts.
	text  string
	posts []post
	// operators lists the commands that operators may run, see parseCommands. Operators run one of these commands, unless
	// left.Commands is higher.
	operators string
	commands  []command
	// limit is the maximum number of tries, 2 by default. `recent` is the maximum number of recent events, 8 by
	// default.
	limit, recent int
	// hops is the maximum number of messages in a row, 8 by default.
	hops int
	// `left` limits the actions other than faults. left.Olds limits the invocations of old processes after a deployment.
	left budget
	// tasks holds the waiting tasks of Step Functions by token. `versions` names the deployment of a new version, see
	// hosts.
	tasks    map[string]task
	versions string
	// `early` makes the loop acknowledge early. `refused` makes Step Functions refuse to start executions. `lanes` turns
	// the two queues into lanes. Without `lanes`, both queues feed the same instances.
	early, refused, lanes bool
	// isOneLane is set if all events and all instances belong to one lane.
	isOneLane bool
	// faults is the number of faults in the full scope, 1 by default. "make test" always allows one fault. `nested` has
	// the same meaning as in scope, and is 1 by default. isLong excludes the scenario from the short scope, and from
	// searches with pauses.
	faults, nested int
	isLong         bool
}

// post is an event from outside.
type post struct {
	queue, group, typ, item, to string
	// afterEnd is set if an earlier event ends the instance.
	afterEnd bool
	// isLater is set if producers send the event after the instance has started.
	isLater bool
}

// parsePosts reads events. "x/a tell a1 x/b; 2:x/a add q1" sends x/a the event "tell", with the item a1 and the
// receiver x/b. It then sends x/a the event "add" through the second queue. An event after the word "later" is sent
// once the instance exists.
func parsePosts(text string) (posts []post) {
	hasEnded := map[string]bool{}
	for line := range strings.SplitSeq(text, ";") {
		words := append(strings.Fields(line), "", "", "")
		isLater := words[0] == "later"
		if isLater {
			words = words[1:]
		}
		p := post{isLater: isLater, queue: queueARN, group: words[0], typ: words[1], item: words[2], to: words[3]}
		if prefix, group, isOther := strings.Cut(p.group, ":"); isOther {
			p.queue, p.group = map[string]string{"2": secondARN, "3": thirdARN}[prefix], group
		}
		p.afterEnd = hasEnded[p.group]
		hasEnded[p.group] = p.afterEnd || p.typ == "finish"
		posts = append(posts, p)
	}
	return posts
}

// begin returns the world at the start of the search.
func (s *scenario) begin(scope scope) *world {
	w := &world{scenario: s, clock: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), left: s.left, records: map[string]stored{}, backups: map[string]stored{}, cached: map[string][][]byte{},
		sent: map[string]time.Time{}, serial: map[string]int{}, sends: map[string]instances.LastSend{}, aliases: map[string]alias{}, tasks: map[string]task{}, executions: map[string]execution{},
		applied: map[string][]string{}, facts: map[string]int{}}
	w.left.Faults, w.left.Pauses, w.faults = scope.faults, scope.pauses, scope.faults
	for i, p := range s.posts {
		if p.isLater {
			w.later = append(w.later, p)
			continue
		}
		id := fmt.Sprint("post ", i)
		body := fmt.Sprintf(`{"type":%q,"item":%q,"to":%q}`, p.typ, p.item, p.to)
		switch t, isTask := s.tasks[p.item]; {
		case isTask:
			t.group, t.entered, t.beaten = p.group, w.clock, w.clock
			w.tasks[p.item] = t
			body = fmt.Sprintf(`{"type":"settle.wait","$task":{"token":%q,"name":%q,"execution":%q,"enteredAt":%q,"timeoutSeconds":%d,"heartbeatSeconds":%d}}`,
				p.item, t.name, t.execution, w.clock.Format(time.RFC3339), int(t.timeout.Seconds()), int(t.heartbeat.Seconds()))
		case strings.HasSuffix(p.item, "*"): // A producer sends duplicates of an event with an ID.
			body = fmt.Sprintf(`{"type":%q,"item":%q,"$id":%q}`, p.typ, p.item, p.item)
		}
		w.enqueue(p.queue, p.group, body, id, instances.Place{})
	}
	return w
}

func scenarioNamed(name string) *scenario {
	for _, s := range scenarios() {
		if s.name == name {
			return s
		}
	}
	panic("there is no scenario " + name)
}
