package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
)

// watching runs a watch command while `do` runs, and returns the command's output.
func (u user) watching(process command.Process, do func(), flags ...string) answer {
	u.t.Helper()
	ctx, stop := context.WithCancel(u.t.Context())
	defer stop()
	ended := make(chan answer, 1)
	go func() { ended <- u.runUntil(ctx, process, append([]string{"watch", "--local"}, flags...)...) }()
	time.Sleep(time.Second) // watch reads every two seconds.
	do()
	stop()
	return <-ended
}

func TestWatchShowsTheTransitionsOfAllInstancesOfAMachine(t *testing.T) {
	t.Parallel()
	for name, process := range map[string]command.Process{"text": {StdoutTTY: true}, "json": {}} {
		withWork(t, &work{}, func(u user) {
			for _, id := range []string{"old", "one"} {
				u.must("send", "--local", "work/"+id, "START")
			}
			u.must("send", "--local", "work/old", "FINISH")
			time.Sleep(time.Minute)
			got := u.watching(process, func() {
				u.must("send", "--local", "work/one", "COUNT", "what=1")
				time.Sleep(time.Millisecond)
				u.must("send", "--local", "work/twenty", "START")
				time.Sleep(2 * time.Second)
				u.must("send", "--local", "work/one", "COUNT", "what=2")
				time.Sleep(time.Millisecond)
				u.must("send", "--local", "work/twenty", "FINISH")
				time.Sleep(10 * time.Second)
			}, "--machine", "work")
			want := "1 instance of work is active: 1 in ready\n" +
				"01-01 00:01:01.000  work/one  COUNT        stays in ready\n" +
				"01-01 00:01:01.001  work/twenty  START        idle → busy\n" +
				"01-01 00:01:01.001  work/twenty  done.invoke  busy → ready\n" +
				"01-01 00:01:03.001  work/one     COUNT        stays in ready\n" +
				"01-01 00:01:03.002  work/twenty  FINISH       ready → over\n" +
				"work/twenty is done in over\n"
			if name == "json" {
				want = `{"instance":"work/one","at":"2000-01-01T00:01:01Z","event":"COUNT","from":["ready"],"to":["ready"],"revision":2}` + "\n" +
					`{"instance":"work/twenty","at":"2000-01-01T00:01:01.001Z","event":"START","from":["idle"],"to":["busy"],"revision":1}` + "\n" +
					`{"instance":"work/twenty","at":"2000-01-01T00:01:01.001Z","event":"done.invoke.busy","from":["busy"],"to":["ready"],"revision":1}` + "\n" +
					`{"instance":"work/one","at":"2000-01-01T00:01:03.001Z","event":"COUNT","from":["ready"],"to":["ready"],"revision":3}` + "\n" +
					`{"instance":"work/twenty","at":"2000-01-01T00:01:03.002Z","event":"FINISH","from":["ready"],"to":["over"],"revision":2}` + "\n"
			}
			if got.out != want || got.code != command.ExitDone {
				u.t.Errorf("%s: expected\n%s\ngot exit code %d and\n%s", name, want, got.code, got.out)
			}
			// A look costs half a read unit for each of the 16 shards of active instances, and one unit for the instance.
			contains(u.t, got.err, "Each look reads the index by_state and these instances: 9 read units now, or about 16200 an hour at one look every 2s.\n", "Used ", " read units in 13s.\n")
		})
	}
}

func TestWatchWithoutAnIndexReadsTheTableLessOften(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		// Queries fail as if the table had no index.
		looks := 0
		process := u.faultily(func(operation, _ string) error {
			if operation == "Scan" {
				looks++
			}
			return nil
		}, nil)
		process.HTTP = withoutIndex{process.HTTP}
		got := u.watching(process, func() {
			u.must("send", "--local", "work/1", "FINISH")
			time.Sleep(25 * time.Second)
		}, "--machine", "work")
		contains(u.t, got.out, "1 instance of work is active: 1 in ready\n", "FINISH       ready → over\nwork/1 is done in over\n")
		contains(u.t, got.err, "Each look reads the whole table settle, which has no index by_state: 1 read unit now, or about 360 an hour at one look every 10s.\n")
		if looks != 3 {
			u.t.Errorf("expected 3 looks in 26 s, got %d", looks)
		}
	})
}

func TestWatchFollowsInstancesInAState(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 3 * time.Second}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		got := u.watching(command.Process{StdoutTTY: true}, func() {
			u.must("send", "--local", "work/1", "START") // work/1 leaves the state,
			time.Sleep(time.Second)
			u.must("send", "--local", "work/2", "COUNT", "what=x") // work/2 stays outside,
			time.Sleep(5 * time.Second)                            // and work/1 returns.
		}, "--machine", "work", "--state", "ready", "--every", "500ms")
		var changes []string
		for line := range strings.Lines(got.out) {
			fields := strings.Fields(line)
			changes = append(changes, strings.Join(fields[2:], " "))
		}
		want := "of work is active: 1 in ready; work/1 START ready → busy; work/1 done.invoke busy → ready"
		if joined := strings.Join(changes, "; "); joined != want {
			u.t.Errorf("expected %s, got %s", want, joined)
		}
		contains(u.t, got.err, "every 500ms.\n")
	})
}

func TestWatchRefusesTooManyInstances(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		client := dynamodb.NewFromConfig(u.stack.AWS())
		output, err := client.GetItem(u.t.Context(), &dynamodb.GetItemInput{TableName: aws.String(stack.Table),
			Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "work/1"}}})
		if err != nil {
			u.t.Fatal(err)
		}
		for i := range 1000 {
			output.Item["instance"] = &types.AttributeValueMemberS{Value: fmt.Sprint("work/copy-", i)}
			output.Item["index_key"] = &types.AttributeValueMemberS{Value: fmt.Sprint("work/ready/copy-", i)}
			if _, err := client.PutItem(u.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(stack.Table), Item: output.Item}); err != nil {
				u.t.Fatal(err)
			}
		}
		got := u.run("watch", "--local", "--machine", "work")
		if want := "settle: expected at most 1000 active instances of work, got more: narrow them down with --state or --tag\n"; got.code != command.ExitFailed || got.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %+v", want, got)
		}
	})
}
