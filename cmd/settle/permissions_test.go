package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/runtime/durable"
)

// set is a set of permissions, such as "dynamodb:Scan on the table".
type set map[string]bool

func (s set) with(others ...set) set {
	union := maps.Clone(s)
	for _, other := range others {
		maps.Copy(union, other)
	}
	return union
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

var (
	// codes matches code in a page: an action, a flag or a command.
	codes = regexp.MustCompile("`([^`]+)`")
	// granted matches an action, or the resource of the actions before it.
	granted = regexp.MustCompile("`(?:(dynamodb|sqs):)?([A-Z][A-Za-z]+)`| on (?:its (index)|the (table|FIFO queue|dead-letter queue)s?)")
	// conditional matches the flag to which a sentence applies.
	conditional = regexp.MustCompile("^(?:With|For) `(--[a-z-]+)`")
	// referred matches a reference to the permissions of another command.
	referred = regexp.MustCompile("the permissions of (?:its command and of )?`([a-z]+)`")
)

// permissionsIn returns the permissions that a sentence lists.
func permissionsIn(sentence string) set {
	found, service, pending := set{}, "", []string{}
	keys := ""
	if strings.Contains(sentence, "`idempotency/*`") {
		keys = " idempotency/*"
	}
	sentence = strings.ReplaceAll(sentence, "`dynamodb:LeadingKeys`", "")
	for _, match := range granted.FindAllStringSubmatch(sentence, -1) {
		if match[2] != "" {
			if match[1] != "" {
				service = match[1]
			}
			pending = append(pending, service+":"+match[2])
			continue
		}
		for _, name := range pending {
			found[name+" on the "+match[3]+match[4]+keys] = true
		}
		pending = nil
	}
	return found
}

// operatorPermissions returns the operators' table in docs/security.md: the permissions of each command, such as
// "send". If a flag changes the permissions, the table also has the command with this flag, such as "send --wait".
func operatorPermissions(t *testing.T) map[string]set {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "| command | permissions |\n|---|---|\n")
	text, _, _ = strings.Cut(text, "\n\n")
	table := map[string]set{}
	for row := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(row, "|\n "), " | ")
		if len(cells) != 2 {
			t.Fatalf("expected a row of two cells, got %s", row)
		}
		for _, name := range codes.FindAllStringSubmatch(cells[0], -1) {
			table[name[1]] = set{}
			for sentence := range strings.SplitSeq(cells[1], ". ") {
				document(table, name[1], sentence)
			}
		}
	}
	return table
}

// document reads a sentence about a command, and adds the permissions in the sentence to the table.
func document(table map[string]set, name, sentence string) {
	listed := permissionsIn(sentence)
	for _, other := range referred.FindAllStringSubmatch(sentence, -1) {
		listed = listed.with(table[other[1]])
	}
	key := name
	if flag := conditional.FindStringSubmatch(sentence); flag != nil {
		key += " " + flag[1]
	}
	if len(listed) > 0 && !strings.Contains(sentence, ", only ") {
		listed = listed.with(table[name])
	}
	if len(listed) > 0 {
		table[key] = listed
	}
}

// operatorRole is an HTTP client that denies each call whose permissions are not in `allowed`. It records the
// permissions that the calls need.
type operatorRole struct {
	to      aws.HTTPClient
	allowed set

	mu   sync.Mutex
	used set
}

// needed returns the permissions that a request needs.
func needed(target string, body []byte) ([]string, error) {
	type located struct {
		TableName string
		Key, Item map[string]struct{ S string }
	}
	var in struct {
		located
		IndexName, QueueName string
		QueueURL             string `json:"QueueUrl"`
		TransactItems        []map[string]located
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	ofTable := func(action string, at located) string {
		if action == "dynamodb:UpdateItem" && strings.HasPrefix(at.Key["instance"].S, "idempotency/") {
			return action + " on the table idempotency/*"
		}
		return action + " on the table"
	}
	var permissions []string
	for _, one := range in.TransactItems {
		for kind, at := range one {
			action, err := infra.ActionOfItem(kind)
			if err != nil {
				return nil, err
			}
			permissions = append(permissions, ofTable(action, at))
		}
	}
	if permissions != nil {
		return permissions, nil
	}
	prefix, operation, _ := strings.Cut(target, ".")
	action, err := infra.ActionOf(map[string]string{"AmazonSQS": "SQS", "DynamoDB_20120810": "DynamoDB"}[prefix], operation)
	switch queue := in.QueueURL + in.QueueName; {
	case err != nil:
		return nil, err
	case in.IndexName != "":
		return []string{action + " on the index"}, nil
	case queue == "":
		return []string{ofTable(action, in.located)}, nil
	case strings.Contains(queue, "-dlq"):
		return []string{action + " on the dead-letter queue"}, nil
	default:
		return []string{action + " on the FIFO queue"}, nil
	}
}

// Do implements aws.HTTPClient.
func (r *operatorRole) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	permissions, err := needed(request.Header.Get("X-Amz-Target"), body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	isDenied := false
	for _, permission := range permissions {
		r.used[permission] = true
		if !r.allowed[permission] {
			isDenied = true
		}
	}
	if isDenied {
		return &http.Response{
			StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"denied"}`)),
		}, nil
	}
	return r.to.Do(request)
}

// operated sets up the stack before each command line: person/1 is active, person/2 is stopped, and both have children,
// aliases and parked messages. The chart of machine work is broken, so work/2 and work/3 are unsettled. An operator
// keeps work/3.
func operated(t *testing.T, test func(u user, file string)) {
	t.Helper()
	w := &work{}
	w.broken.Store(true)
	config := command.Config{Machines: func(e command.Environment) []durable.Machine {
		return append(persons().Machines(e), durable.Host(w.chart(), durable.MachineConfig{}))
	}}
	withMachines(t, config, func(u user) {
		for _, name := range []string{"ada", "bob"} {
			u.live(map[string]string{"ada": "person/1", "bob": "person/2"}[name], name)
		}
		u.must("stop", "--local", "person/2")
		u.must("send", "--local", "work/2", "START")
		u.must("send", "--local", "work/3", "START")
		time.Sleep(time.Minute)
		u.must("keep", "--local", "work/3")
		test(u, u.saved("backup.jsonl"))
	})
}

// commandLines lists, for each row, command lines that together need all permissions of the row. FILE is a backup.
// MESSAGE is a parked message. A line that starts with "noindex" runs as if the table had no index.
var commandLines = map[string][]string{
	"get": {"get person/1", "get --alias ada"}, "history": {"history person/1"}, "graph": {"graph person/1"},
	"list": {"list", "list --consistent", "noindex list"}, "watch": {"watch person/2", "watch --machine person", "noindex watch --machine person"},
	"check": {"check", "check --machine person"}, "migrate": {"migrate --dry-run"}, "export": {"export", "export --machine person"}, "backup": {"backup"},
	"send": {"send person/1 KNOW what=eve"}, "send --id": {"send --id again person/1 KNOW what=eve"}, "send --alias": {"send --alias ada KNOW what=eve"},
	"send --wait": {"send person/1 KNOW what=eve --wait settled", "send work/1 COUNT what=1 --wait settled"},
	"resume":      {"resume work/2"}, "resume --wait": {"resume work/2 --wait settled"},
	"import": {"import FILE --yes --overwrite"}, "import --dry-run": {"import FILE --dry-run"},
	"rearm": {"rearm --all --yes", "rearm person/1"}, "rearm --new-queue": {"rearm --all --yes --new-queue"}, "rearm --dry-run": {"rearm --all --dry-run"},
	"stop": {"stop person/1"}, "stop --dry-run": {"stop person/1 --dry-run"},
	"terminate": {"terminate person/1"}, "terminate --dry-run": {"terminate person/1 --dry-run"},
	"move": {"move person/1 open"}, "move --dry-run": {"move person/1 open --dry-run"},
	"keep": {"keep work/2"}, "keep --dry-run": {"keep work/2 --dry-run"},
	"unkeep": {"unkeep work/2"}, "unkeep --dry-run": {"unkeep work/2 --dry-run"},
	"forget": {"forget person/2 --yes"}, "forget --dry-run": {"forget person/2 --dry-run"},
	"bench": {"bench --machine person --event {\"type\":\"RUN\"} --events 5"}, "bench --clean": {"bench --machine person --event {\"type\":\"RUN\"} --events 5", "send person/bench-1-one-0 RUN", "bench --clean bench-1 --machine person", "noindex bench --clean bench-1 --machine person"},
	"dlq": {"dlq list", "dlq show MESSAGE", "dlq redrive MESSAGE", "dlq drop --all --yes"},

	"bulk send": {"bulk send --machine person KNOW what=eve"}, "bulk resume": {"bulk resume --machine work"}, "bulk rearm": {"bulk rearm --machine work"},
	"bulk stop": {"bulk stop --machine person"}, "bulk terminate": {"bulk terminate --machine person"}, "bulk move": {"bulk move --machine person open"},
	"bulk keep": {"bulk keep --machine work"}, "bulk unkeep": {"bulk unkeep --machine work"}, "bulk forget": {"bulk forget --machine person"},
	"bulk --dry-run": {"bulk stop --machine person --dry-run", "bulk forget --machine person --dry-run", "bulk rearm --machine work --dry-run"},
}

// run runs a command line under the role. It stops a command that would never end.
func (r *operatorRole) run(u user, line, file string) {
	u.t.Helper()
	if rest, isWithout := strings.CutPrefix(line, "noindex "); isWithout {
		without := &operatorRole{to: withoutIndex{r.to}, allowed: r.allowed, used: r.used}
		without.run(u, rest, file)
		return
	}
	if strings.Contains(line, "MESSAGE") {
		line = strings.ReplaceAll(line, "MESSAGE", u.parked()[0].MessageID)
	}
	args := append(strings.Fields(strings.ReplaceAll(line, "FILE", file)), "--local")
	if args[0] == "bulk" {
		args = append(args, "--yes", "--journal", filepath.Join(u.t.TempDir(), "journal"))
	}
	ctx, stop := context.WithTimeoutCause(u.t.Context(), time.Minute, errors.New("the test ends the command"))
	defer stop()
	got := u.runUntil(ctx, command.Process{StdoutTTY: true, HTTP: r}, args...)
	// The chart of work cannot apply events, so waiting for them fails.
	isParked := strings.Contains(line, " work/") && strings.Contains(line, "--wait") && strings.Contains(got.err, "the event was parked: ")
	if got.code != command.ExitDone && !isParked {
		u.t.Errorf("settle %s: exit code %d, %s", line, got.code, got.err)
	}
}

// TestCommandsNeedTheDocumentedPermissions runs the commands with the permissions listed in docs/security.md. Together,
// the commands of a row must use exactly these permissions.
func TestCommandsNeedTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	table := operatorPermissions(t)
	for name := range commandLines {
		if of, isBulk := strings.CutPrefix(name, "bulk "); isBulk && table[of] != nil {
			table[name] = table[of].with(table["bulk"])
		}
	}
	delete(table, "bulk")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(table)), slices.Sorted(maps.Keys(commandLines))); diff != "" {
		t.Errorf("expected the tested commands to be the documented ones: %s", diff)
	}
	for name, lines := range commandLines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operated(t, func(u user, file string) {
				role := &operatorRole{to: u.stack.AWS().HTTPClient, allowed: table[name], used: set{}}
				for _, line := range lines {
					role.run(u, line, file)
					if strings.HasPrefix(line, "bulk ") { // A bulk command lists the instances as list does.
						role.run(u, "noindex "+line, file)
					}
				}
				if diff := cmp.Diff(table[name].sorted(), role.used.sorted()); diff != "" {
					u.t.Errorf("settle %s: expected exactly the documented permissions: %s", name, diff)
				}
			})
		})
	}
}
