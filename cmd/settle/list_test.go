package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// listed is the JSON of a list command.
type listed struct {
	Instances []struct{ Instance string }
	Source    string
	Cursor    string
}

// list runs a list command and returns the listed names. Standard error may only say how to get the next page.
func (u user) list(flags ...string) ([]string, listed) {
	u.t.Helper()
	got := u.run(append([]string{"list", "--local", "-o", "json"}, flags...)...)
	if got.code != command.ExitDone {
		u.t.Fatalf("list %v: expected exit code 0, got %d and %q", flags, got.code, got.err)
	}
	var page listed
	unmarshal(u.t, []byte(got.out), &page)
	note := ""
	if page.Cursor != "" {
		note = "There are more: continue with --cursor " + page.Cursor + "\n"
	}
	if got.err != note {
		u.t.Errorf("list %v: expected %q on standard error, got %q", flags, note, got.err)
	}
	var names []string
	for _, instance := range page.Instances {
		names = append(names, instance.Instance)
	}
	return names, page
}

func TestListContinuesByCursorUntilTheEnd(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		var want []string
		for i := range 5 {
			name := fmt.Sprint("signup/", i)
			u.must("send", "--local", name, "SIGN_UP", "email=ada@example.com", "name=Ada")
			want = append(want, name)
		}
		u.must("send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)
		for limit, wantPages := range map[string]int{"1": 5, "2": 3, "5": 1, "1000000": 1} {
			var got []string
			flags, pages := []string{"--machine", "signup", "--limit", limit}, 0
			for cursor := ""; ; {
				names, page := u.list(append(flags, "--cursor="+cursor)...)
				got, pages = append(got, names...), pages+1
				if cursor = page.Cursor; cursor == "" {
					break
				}
			}
			if !reflect.DeepEqual(got, want) || pages != wantPages {
				u.t.Errorf("pages of %s: expected %v in %d pages, got %v in %d", limit, want, wantPages, got, pages)
			}
		}
		_, page := u.list("--machine", "signup", "--limit", "1")
		other := u.run("list", "--local", "--machine", "job", "--cursor", page.Cursor)
		contains(u.t, other.err, "settle: usage: --cursor: expected the whole cursor that settle list printed for the same --machine, --state, --tag and --status, ")
		if other.code != command.ExitUsage || other.out != "" {
			u.t.Errorf("another listing's cursor: expected exit code 2, got %d and %q", other.code, other.out)
		}
	})
}

func TestListRefusesAnUnknownState(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		got := u.run("list", "--local", "--machine", "signup", "--state", "nosuch")
		if got.code != command.ExitNotFound || got.out != "" || !strings.HasPrefix(got.err, `settle: not found: machine signup has no state "nosuch": expected one of `) || !strings.Contains(got.err, "unverified.awaiting_verification") {
			u.t.Errorf("expected exit code 3 and the states, got %+v", got)
		}
		for _, state := range []string{"unverified", "unverified.awaiting_verification"} {
			if names, _ := u.list("--machine", "signup", "--state", state); len(names) != 0 {
				u.t.Errorf("%s: expected no instance in the state, got %v", state, names)
			}
		}
		// Without --machine, the state may belong to a machine that is not hosted here.
		for flags, strange := range map[string]string{"--state nosuch": `state "nosuch"`, "--tag nope": `tag "nope"`, "--tag failed": "", "--state unverified": ""} {
			got, said := u.run(append([]string{"list", "--local"}, strings.Fields(flags)...)...), ""
			if strange != "" {
				said = "No machine of this build has the " + strange + ".\n"
			}
			if got.code != command.ExitDone || got.out != "No instances.\n" || got.err != said {
				u.t.Errorf("%s: expected no instances and %q, got %+v", flags, said, got)
			}
		}
	})
}

func TestGetReportsAnUnknownMachine(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		got := u.run("get", "--local", "nosuch/1")
		if want := "settle: unknown machine: expected one of enrich, job, pipeline, signup, upload, got \"nosuch\"\n"; got.code != command.ExitNotFound || got.err != want {
			u.t.Errorf("expected exit code 3 and %q, got %+v", want, got)
		}
		got = u.run("get", "--local", "signup/1")
		if got.code != command.ExitNotFound || !strings.Contains(got.err, "no instance signup/1 in table settle; its first event creates it") {
			u.t.Errorf("expected exit code 3 and a missing instance, got %+v", got)
		}
	})
}

func TestListWithoutAnIndexReadsTheTableAndSaysSo(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		if err := dynamostore.CreateTable(u.t.Context(), dynamodb.NewFromConfig(u.stack.AWS()), "plain"); err != nil {
			u.t.Fatal(err)
		}
		got := u.run("list", "--local", "--table", "plain", "-o", "json")
		if got.code != command.ExitDone || got.out != "{\n  \"instances\": [],\n  \"source\": \"table\"\n}\n" || got.err != "Read the whole table: plain has no index by_state.\n" {
			u.t.Errorf("expected an empty list read from the table, with a note, got %+v", got)
		}
		if got := u.run("list", "--local", "--table", "plain", "--consistent"); got.code != command.ExitDone || got.err != "" {
			u.t.Errorf("with --consistent: expected no note, got %+v", got)
		}
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		u.must("send", "--local", "signup/2", "SIGN_UP", "email=ada@example.com", "name=Ada")
		_, page := u.list("--limit", "1")
		got = u.run("list", "--local", "--table", "plain", "--cursor", page.Cursor)
		if got.code != command.ExitFailed || !strings.Contains(got.err, "the table has no index by_state") {
			u.t.Errorf("a cursor without an index: expected exit code 1 and the reason, got %+v", got)
		}
	})
}

func TestListOnATerminalSaysThatTheIndexMayBeBehind(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for _, watched := range []bool{false, true} {
			got := u.runAs(command.Process{StderrTTY: watched}, "list", "--local")
			want := map[bool]string{true: "Found by the index, which is eventually consistent. To read the whole table, use --consistent.\n"}[watched]
			if got.code != command.ExitDone || got.err != want {
				u.t.Errorf("watched %t: expected %q, got exit code %d and %q", watched, want, got.code, got.err)
			}
		}
		contains(u.t, strings.Join(strings.Fields(u.must("list", "--help")), " "), "an instance that has just started or changed its state may be missing",
			"To miss none, use --consistent.")
	})
}
