package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// otherTable creates the table that the tests import into.
func (u user) otherTable() {
	u.t.Helper()
	if err := dynamostore.CreateIndexedTable(u.t.Context(), dynamodb.NewFromConfig(u.stack.AWS()), "other"); err != nil {
		u.t.Fatal(err)
	}
}

// itemsOf returns the items of a table.
func (u user) itemsOf(table string) map[string]string {
	u.t.Helper()
	output, err := dynamodb.NewFromConfig(u.stack.AWS()).Scan(u.t.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		u.t.Fatal(err)
	}
	items := map[string]string{}
	for _, item := range output.Items {
		name := item["instance"].(*types.AttributeValueMemberS).Value
		items[name] = u.textOf(item)
	}
	return items
}

// textOf returns an item as text, without the addresses of its values.
func (u user) textOf(item map[string]types.AttributeValue) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(item)) {
		fmt.Fprintf(&b, "%s=%s ", name, spelled(item[name]))
	}
	return b.String()
}

func spelled(value types.AttributeValue) string {
	switch v := value.(type) {
	case *types.AttributeValueMemberM:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(v.Value)) {
			fmt.Fprintf(&b, "%s:%s ", name, spelled(v.Value[name]))
		}
		return "{" + b.String() + "}"
	case *types.AttributeValueMemberL:
		var b strings.Builder
		for _, element := range v.Value {
			b.WriteString(spelled(element) + " ")
		}
		return "[" + b.String() + "]"
	default:
		return fmt.Sprintf("%T%+v", value, value)
	}
}

// saved writes the output of backup into a file, compressed if its name ends in .gz.
func (u user) saved(name string) string {
	u.t.Helper()
	got := u.run("backup", "--local")
	if got.code != command.ExitDone {
		u.t.Fatalf("backup: %+v", got)
	}
	text := []byte(got.out)
	if strings.HasSuffix(name, ".gz") {
		var zipped bytes.Buffer
		writer := gzip.NewWriter(&zipped)
		if _, err := writer.Write(text); err != nil || writer.Close() != nil {
			u.t.Fatal(err)
		}
		text = zipped.Bytes()
	}
	path := filepath.Join(u.t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

func TestImportWritesEachItemOfABackup(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "KNOW", "what=job-7", "--wait", "settled")
		u.must("send", "--local", "relay/1", "PASS", "what=a", "--id", "pass-1", "--wait", "settled")
		u.must("send", "--local", "relay/2", "RUN", "--wait", "settled")
		u.otherTable()
		file := u.saved("settle.jsonl.gz")
		want := u.itemsOf("settle")
		dry := u.must("import", "--local", "--table", "other", file, "--dry-run")
		if got := u.itemsOf("other"); dry != fmt.Sprintf("%d items: %d to write, 0 already there, 0 different, 0 unreadable.\n", len(want), len(want)) || len(got) != 0 || len(want) < 5 {
			u.t.Errorf("got %q and %v of %v", dry, got, want)
		}
		contains(u.t, u.must("import", "--local", "--table", "other", file, "--yes"), fmt.Sprintf("%d items: %d written, ", len(want), len(want)))
		if got := u.itemsOf("other"); !maps.Equal(got, want) {
			u.t.Errorf("got\n%v, want\n%v", got, want)
		}
		contains(u.t, u.must("import", "--local", "--table", "other", file, "--yes"), fmt.Sprintf("0 written, %d already there, 0 different", len(want)))
	})
}

func TestImportChangesNoItemUnlessAsked(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "PASS", "what=a", "--wait", "settled")
		file, before := u.saved("settle.jsonl"), u.itemsOf("settle")
		u.must("send", "--local", "relay/1", "PASS", "what=b", "--wait", "settled")
		after := u.itemsOf("settle")
		for _, flags := range [][]string{{"--dry-run"}, {"--yes"}, {"--dry-run", "--overwrite"}} {
			got := u.run(append([]string{"import", "--local", file}, flags...)...)
			contains(u.t, got.err, "settle: the table has another item relay/1\n", "settle: the table has another item work/1\n")
			if !maps.Equal(u.itemsOf("settle"), after) {
				u.t.Errorf("%v: the table has changed", flags)
			}
			if len(flags) == 2 {
				contains(u.t, got.out, "2 items: 0 to write, 0 already there, 2 to overwrite, 0 unreadable.\n")
				continue
			}
			contains(u.t, got.err, "settle: 2 items differ in table settle: nothing of them was changed. To replace them, repeat the command with --overwrite\n")
			if got.code != command.ExitFailed {
				u.t.Errorf("%v: expected exit code 1, got %+v", flags, got)
			}
		}
		contains(u.t, u.must("import", "--local", file, "--yes", "--overwrite"), "2 items: 0 written, 0 already there, 2 overwritten, 0 unreadable.\n")
		if got := u.itemsOf("settle"); !maps.Equal(got, before) {
			u.t.Errorf("got\n%v, want\n%v", got, before)
		}
	})
}

func TestImportReportsLinesWithoutAnItemAndContinues(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		input := `{"Item": {"instance": {"S": "relay/1"}, "revision": {"N": "1"}}}
{"instance": "relay/2", "snapshot": {}}
{"Item": {"id": {"S": "x"}}}
{"Item": {"instance": {"S": "relay/3"}, "revision": {"N": "1"}}}
`
		got := u.runWith(input, "import", "--local", "-", "--yes")
		contains(u.t, got.out, "2 items: 2 written, 0 already there, 0 different, 2 unreadable.\n")
		contains(u.t, got.err, `settle: -, line 2: expected the key "Item" alone, as in a backup or a full export, got the keys instance, snapshot`+"\n",
			`settle: -, line 3: expected an item with the key "instance", a string: it is not from a table of Settle`+"\n", "settle: 2 lines have no item: look for a complete backup\n")
		if items := u.itemsOf("settle"); got.code != command.ExitFailed || len(items) != 2 {
			u.t.Errorf("expected exit code 1 and two items, got %+v and %v", got, items)
		}
	})
}

// An AWS error ends the first run. Ctrl-C ends the second run.
func TestImportContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		for n := range 40 {
			u.must("send", "--local", fmt.Sprintf("relay/%d", n), "PASS", "what=a")
		}
		u.otherTable()
		var calls atomic.Int64
		file := u.saved("settle.jsonl")
		failing := u.faultily(func(operation, _ string) error {
			if strings.HasSuffix(operation, "PutItem") && calls.Add(1) > 20 {
				return errors.New("the network is down")
			}
			return nil
		}, nil)
		got := u.runAs(failing, "import", "--local", "--table", "other", file, "--yes")
		contains(u.t, got.err, "the network is down", "; repeat the command to continue: it skips the items that are already there\n")
		ctx, stop := context.WithTimeout(u.t.Context(), 60*time.Millisecond)
		defer stop()
		cut := u.runUntil(ctx, command.Process{StdoutTTY: true}, "import", "--local", "--table", "other", file, "--yes")
		if got.code != command.ExitFailed || cut.code != command.ExitInterrupted {
			u.t.Errorf("expected the exit codes 1 and 130, got %+v and %+v", got, cut)
		}
		contains(u.t, u.must("import", "--local", "--table", "other", file, "--yes"), "41 items: ", " already there, 0 different")
		if !maps.Equal(u.itemsOf("other"), u.itemsOf("settle")) {
			u.t.Error("the tables differ")
		}
	})
}

func TestBackupReadsAllPagesAtItsRate(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		for n := range 40 {
			u.must("send", "--local", fmt.Sprintf("relay/%d", n), "PASS", "what=a")
		}
		begun := time.Now()
		got := u.run("backup", "--local", "--rate", "10")
		if took := time.Since(begun).Seconds(); strings.Count(got.out, "\n") != 41 || took < 3.9 || took > 5 {
			u.t.Errorf("expected 41 lines in four seconds, got %d in %v", strings.Count(got.out, "\n"), took)
		}
		if got.err != "41 items of table settle, complete.\n" {
			u.t.Errorf("got %q", got.err)
		}
		show := u.slowly(80)
		contains(u.t, u.runAs(show, "import", "--local", u.saved("settle.jsonl"), "--yes", "--rate", "5").err, " items, 100%, ")
	})
}

func TestImportRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		for line, want := range map[string]string{
			"import --local":                                `expected "<file> ..."`,
			"import --local -":                              "expected --yes, because the items come from standard input",
			"import --local - --yes --rate 2000000000":      "--rate: expected 1 to 1000000, got 2000000000",
			"backup --local --rate 0":                       "--rate: expected 1 to 1000000, got 0",
			"bulk keep --local --machine relay --rate 0":    "--rate: expected 1 to 1000000, got 0",
			"bulk forget --local --machine relay --batch 0": "--batch: expected at least 1, got 0",
			"import --local import_test.go":                 "expected --yes, because there is no terminal to ask for confirmation",
			"rearm --local relay/1 --new-queue --resume":    "--resume: expected int, got no value",
		} {
			if got := u.run(strings.Fields(line)...); got.code != command.ExitUsage || !strings.Contains(got.err, want) || got.out != "" {
				u.t.Errorf("%s: expected exit code 2 and %q, got %+v", line, want, got)
			}
		}
		missing := u.run("import", "--local", "missing.jsonl", "--yes")
		if missing.code != command.ExitNotFound || !strings.Contains(missing.err, "missing.jsonl: no such file") {
			u.t.Errorf("expected exit code 3, got %+v", missing)
		}
		other := u.run("import", "--local", "import_test.go", "--yes")
		if want := "more than 100 lines have no item: expected a backup"; other.code != command.ExitFailed || !strings.Contains(other.err, want) || strings.Count(other.err, "\n") != 102 {
			u.t.Errorf("expected exit code 1, 101 lines and %q, got %+v", want, other)
		}
		declined := u.runAs(command.Process{StdinTTY: true, In: strings.NewReader("n\n")}, "import", "--local", "import_test.go", "--overwrite")
		if want := "Import into table settle, and replace items that differ? [y/N] settle: not confirmed, nothing was imported\n"; declined.err != want {
			u.t.Errorf("expected %q, got %+v", want, declined)
		}
	})
}
