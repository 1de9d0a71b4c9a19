package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// items returns all items of the table as text, by key.
func (u user) items() map[string]string {
	u.t.Helper()
	output, err := dynamodb.NewFromConfig(u.stack.AWS()).Scan(u.t.Context(), &dynamodb.ScanInput{TableName: aws.String(stack.Table)})
	if err != nil {
		u.t.Fatal(err)
	}
	all := map[string]string{}
	for _, item := range output.Items {
		text, err := json.Marshal(item)
		if err != nil {
			u.t.Fatal(err)
		}
		all[item["instance"].(*types.AttributeValueMemberS).Value] = string(text)
	}
	return all
}

// edit changes an attribute of an item directly in the table.
func (u user) edit(instance, attribute string, value types.AttributeValue) {
	u.t.Helper()
	_, err := dynamodb.NewFromConfig(u.stack.AWS()).UpdateItem(u.t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(stack.Table), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: instance}},
		UpdateExpression: aws.String("SET #a = :v"), ExpressionAttributeNames: map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": value},
	})
	if err != nil {
		u.t.Fatal(err)
	}
}

// populate creates four instances of signup and ends one of them. It also creates an instance of job and an alias.
func (u user) populate() {
	u.t.Helper()
	for _, id := range []string{"1", "2", "3", "4"} {
		u.must("send", "--local", "signup/"+id, "SIGN_UP", "email=ada@example.com", "name=Ada")
	}
	u.must("send", "--local", "signup/4", "CANCEL")
	u.must("send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)
	u.edit("alias/x", "owner", &types.AttributeValueMemberS{Value: "signup/1"})
}

func TestCheckCountsFittingInstancesAndWritesNothing(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		if got, want := u.must("check", "--local", "-o", "json"), "[]\n"; got != want {
			u.t.Errorf("expected %q of an empty table, got %q", want, got)
		}
		u.populate()
		before := u.items()
		const want = "MACHINE  VERSION  STATUS  STATE                             FIT  MIGRATE  BREAK\n" +
			"job      1        active  queued                            1    0        0\n" +
			"signup   1        active  unverified.awaiting_verification  3    0        0\n" +
			"signup   1        done    cancelled                         1    0        0\n"
		if got := u.must("check", "--local"); got != want {
			u.t.Errorf("expected\n%s\ngot\n%s", want, got)
		}
		if got := u.must("check", "--local", "--machine", "signup", "--status", "active"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "awaiting_verification  3 ") {
			u.t.Errorf("expected only the line of active sign-ups, got\n%s", got)
		}
		if after := u.items(); !maps.Equal(after, before) || len(after) != 6 {
			u.t.Errorf("expected 6 unchanged items, %v, got %v", before, after)
		}
	})
}

func TestCheckReportsBreakingInstancesAndExitsWithOne(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		u.edit("signup/1", "chart_version", &types.AttributeValueMemberN{Value: "2"})
		u.edit("signup/2", "value", &types.AttributeValueMemberS{Value: "gone"})
		u.edit("signup/3", "value", &types.AttributeValueMemberS{Value: "gone"})
		u.edit("signup/4", "revision", &types.AttributeValueMemberS{Value: "four"})
		u.edit("ghost/7", "revision", &types.AttributeValueMemberN{Value: "1"})
		u.edit("ghost/7", "created_at", &types.AttributeValueMemberS{Value: "2026-01-02T15:04:05.000Z"})
		before := u.items()
		item, err := dynamodb.NewFromConfig(u.stack.AWS()).GetItem(u.t.Context(), &dynamodb.GetItemInput{TableName: aws.String(stack.Table),
			Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "job/run-1-job-2"}}})
		if err != nil {
			u.t.Fatal(err)
		}
		got := u.run("check", "--local")
		contains(u.t, got.out,
			"MACHINE  VERSION  STATUS  STATE                             FIT  MIGRATE  BREAK\n"+
				"ghost    0                                                  0    0        1\n"+
				"job      1        active  queued                            1    0        0\n"+
				"signup   0                                                  0    0        1\n"+
				"signup   1        active  unverified.awaiting_verification  0    0        2\n"+
				"signup   2        active  unverified.awaiting_verification  0    0        1\n"+
				"\nghost/7 breaks\n  unknown machine: expected one of ",
			"\nsignup/4 breaks\n  decoding signup/4 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute \"revision\": expected a number (N), got a string (S)\n",
			" and 1 more of the same row break\n  unreadable snapshot of chart signup: this version has no state \"gone\"; raise Version, and add RenameState(\"gone\", ...) or MoveState(\"gone\", ...), or host version 1 too\n",
			"\nsignup/1 breaks\n  unreadable snapshot of machine signup: stored by a newer version: expected at most version 1, the newest that this process hosts, got 2; deploy version 2 again\n")
		if want := "settle: 5 of 6 instances cannot run on this build: a newer build has stored 1: keep that build, or host their versions here too; " +
			"host the machines of 1, which this build does not have; add migrations, or host their versions too; repair the items of 1, or restore them from a backup\n"; got.code != command.ExitFailed || got.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %d and %q", want, got.code, got.err)
		}
		steps := item.Item["steps"]
		u.edit("job/run-1-job-2", "steps", &types.AttributeValueMemberN{Value: "0"})
		damaged := u.run("check", "--local", "--machine", "job")
		contains(u.t, damaged.out, "\njob/run-1-job-2 breaks\n  unreadable snapshot of chart job: expected a count of steps from 1, got 0; repair it, or restore it from a backup\n")
		if want := "settle: 1 of 1 instances cannot run on this build: repair their items, or restore them from a backup\n"; damaged.code != command.ExitFailed || damaged.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %d and %q", want, damaged.code, damaged.err)
		}
		u.edit("job/run-1-job-2", "steps", steps)
		asJSON := u.run("check", "--local", "-o", "json", "--machine", "job")
		var rows []compat.Row
		unmarshal(u.t, []byte(asJSON.out), &rows)
		if len(rows) != 1 || rows[0].Fit != 1 || !slices.Equal(rows[0].State, []string{"queued"}) || asJSON.code != command.ExitDone {
			u.t.Errorf("expected one job that fits and exit code 0, got %+v and %d", rows, asJSON.code)
		}
		if after := u.items(); !maps.Equal(after, before) {
			u.t.Errorf("expected unchanged items, %v, got %v", before, after)
		}
	})
}

// added is the context of movedSignUp.
type added struct{ Added int }

// movedSignUp returns the command of a new build, which has another chart for sign-ups and a migration to that chart.
func movedSignUp(after ...statechart.After[added]) command.Config {
	type state = statechart.State[added]
	moved := durable.Host(statechart.Must(statechart.Definition[added]{
		ID: "signup", Version: 2, Initial: "waiting", Payloads: statechart.Payloads{"CANCEL": statechart.NoPayload()},
		States: []state{{ID: "waiting", Tags: []string{statechart.Settled}, After: after, On: []statechart.Transition[added]{{Event: "CANCEL", Target: "cancelled"}}}, {ID: "cancelled", Type: statechart.Final}},
		Migrations: []statechart.Migration{{From: 1, Changes: []statechart.Change{
			statechart.MoveState("unverified", "waiting"), statechart.MigrateContext(func(map[string]any) added { return added{} }),
		}}},
	}), durable.MachineConfig{})
	return command.Config{Machines: func(command.Environment) []durable.Machine { return []durable.Machine{moved} }}
}

func TestCheckReportsInstancesThatAMigrationLeavesWithoutATimer(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		u.config = movedSignUp(statechart.After[added]{Delay: time.Hour, Target: "cancelled"})
		got := u.runAs(command.Process{StdoutTTY: true, Program: "shop"}, "check", "--local", "--machine", "signup", "--status", "active")
		const want = "MACHINE  VERSION  STATUS  STATE                             FIT  MIGRATE  BREAK  UNSTARTED\n" +
			"signup   1        active  unverified.awaiting_verification  0    3        0      3\n" +
			"\nsignup/1 and 2 more of the same row migrate\n  a migration moves it to the state waiting, whose timers and children do not start; " +
			"once this build is deployed, run shop move signup/1 waiting, which runs Entry too\n"
		if got.out != want || got.code != command.ExitDone {
			u.t.Errorf("expected exit code 0 and\n%s\ngot %d and\n%s", want, got.code, got.out)
		}
	})
}

// TestCheckReportsDeferredEventsThatARollbackWouldPark checks the snapshots of a build with another payload.
func TestCheckReportsDeferredEventsThatARollbackWouldPark(t *testing.T) {
	t.Parallel()
	kiosk := func(note statechart.Payload) command.Config {
		machine := durable.Host(statechart.Must(statechart.Definition[added]{
			ID: "kiosk", Version: 1, Initial: "shut", Payloads: statechart.Payloads{"NOTE": note, "OPEN": statechart.NoPayload()},
			States: []statechart.State[added]{
				{ID: "shut", Tags: []string{statechart.Settled}, Defer: []string{"NOTE"}, On: []statechart.Transition[added]{{Event: "OPEN", Target: "open"}}},
				{ID: "open", Tags: []string{statechart.Settled}, On: []statechart.Transition[added]{{Event: "NOTE"}}},
			},
		}), durable.MachineConfig{})
		return command.Config{Machines: func(command.Environment) []durable.Machine { return []durable.Machine{machine} }}
	}
	withStack(t, func(u user) {
		next := filepath.Join(u.t.TempDir(), "next")
		u.config = kiosk(statechart.PayloadOf[struct{ Text []string }]())
		u.run("check", "--local", "--next", next)
		u.config = kiosk(statechart.PayloadOf[struct{ Text string }]())
		got := u.run("check", "--from", next)
		const row = "kiosk    1        active  shut   1    0        0      1\n"
		const problem = "\nkiosk/new parks\n  this build would park a deferred event: "
		const want = "settle: 1 of 2 instances have deferred events that this build would park\n"
		if !strings.Contains(got.out, "BREAK  PARK\n") || !strings.Contains(got.out, row) || !strings.Contains(got.out, problem) || got.err != want || got.code != command.ExitFailed {
			u.t.Errorf("expected exit code 1, %q, %q and %q, got %+v", row, problem, want, got)
		}
	})
}

func TestCheckMigratesInMemoryAndShowsProgress(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		before := u.items()
		u.config = movedSignUp()
		got := u.runAs(u.slowly(80), "check", "--local", "--machine", "signup")
		const want = "MACHINE  VERSION  STATUS  STATE                             FIT  MIGRATE  BREAK\n" +
			"signup   1        active  unverified.awaiting_verification  0    3        0\n" +
			"signup   1        done    cancelled                         0    1        0\n"
		if got.out != want {
			u.t.Errorf("expected\n%s\ngot\n%s", want, got.out)
		}
		if got, want := got.err, "\r0 instances checked, 1s\x1b[K\r\x1b[K"; got != want {
			u.t.Errorf("expected the progress %q, got %q", want, got)
		}
		if after := u.items(); !maps.Equal(after, before) {
			u.t.Errorf("expected unchanged items, %v, got %v", before, after)
		}
	})
}

func TestCheckOfAnEmptyTableSaysSo(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		if got, want := u.must("check", "--local"), "No instances.\n"; got != want {
			u.t.Errorf("expected %q, got %q", want, got)
		}
		if got, want := u.must("check", "--local", "-o", "json"), "[]\n"; got != want {
			u.t.Errorf("expected %q as JSON, got %q", want, got)
		}
	})
}

func TestCheckTellsWhetherABuildCanBeRolledBack(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		dir := u.t.TempDir()
		stored, next := filepath.Join(dir, "stored"), filepath.Join(dir, "next")
		if err := os.WriteFile(stored, []byte(u.run("backup", "--local").out), 0o600); err != nil {
			u.t.Fatal(err)
		}
		if file, table := u.run("check", "--from", stored, "--next", next).out, u.must("check", "--local"); file != table {
			u.t.Errorf("expected the rows of the table,\n%s\ngot\n%s", table, file)
		}
		if file, table := u.must("check", "--from", stored, "--machine", "job", "--status", "active"), u.must("check", "--local", "--machine", "job", "--status", "active"); file != table {
			u.t.Errorf("expected the rows of active jobs,\n%s\ngot\n%s", table, file)
		}
		contains(u.t, u.must("check", "--from", next),
			"job      1        active  launching                         2    0        0\n", // After a timer and after an event.
			"enrich   1        active  submitting                        1    0        0\n", // A new instance.
			"signup   1        active  unverified.registering            4    0        0\n",
			"signup   1        done    expired                           3    0        0\n")
		old := u.config
		u.config = movedSignUp()
		u.run("check", "--from", stored, "--machine", "signup", "--next", next)
		u.config = old
		got := u.run("check", "--from", next)
		contains(u.t, got.out, "signup   2        done    cancelled  0    0        4\n", "deploy version 2 again")
		if want := "settle: 4 of 4 instances cannot run on this build: a newer build has stored them: keep that build, or host their versions here too\n"; got.code != command.ExitFailed || got.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %d and %q", want, got.code, got.err)
		}
		if got := u.run("check", "--from", next, "--next", next); got.code != command.ExitUsage || !strings.Contains(got.err, "another file than --from") {
			u.t.Errorf("expected exit code 2, got %d and %q", got.code, got.err)
		}
		contains(u.t, u.run("check", "--from", next).out, "signup   2 ") // The file is unchanged.
		for name, want := range map[string]string{"none": "no such file", "nonsense": "/nonsense: line 1: expected the key \"Item\""} {
			if err := os.WriteFile(filepath.Join(dir, "nonsense"), []byte("{}"), 0o600); err != nil {
				u.t.Fatal(err)
			}
			got := u.run("check", "--from", filepath.Join(dir, name))
			contains(u.t, got.err, want)
		}
	})
}
