package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// TestHintsRepeatTheStackFlags checks that suggested commands name the same stack as the command that printed them.
func TestHintsRepeatTheStackFlags(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		const missing = "in flight; see settle dlq list "
		for line, want := range map[string]string{
			"dlq show nope --local":           missing + "--local\n",
			"dlq redrive nope --local":        missing + "--local\n",
			"dlq drop nope --local -y":        missing + "--local\n",
			"dlq show nope --local=true":      missing + "--local\n",
			"dlq show nope --local --queue q": missing + "--local --queue q\n",
			"dlq drop nope --local --yes --dead-letter-queue settle-delay-dlq --queue settle-delay": missing + "--local --queue settle-delay --dead-letter-queue settle-delay-dlq\n",
			"send --local signup/1 CANCEL --wait settled":                                           "; see settle dlq list --local --instance signup/1\n",
			"send --local signup/$2 CANCEL --wait settled":                                          "; see settle dlq list --local --instance 'signup/$2'\n",
			"send --local --table settle signup/3 CANCEL --wait settled":                            "; see settle dlq list --local --instance signup/3\n",
			"send --local --queue settle.fifo signup/4 CANCEL --wait settled":                       "; see settle dlq list --local --queue settle.fifo --dead-letter-queue settle-dlq.fifo --instance signup/4\n",
			"send --local signup/5 CANCEL --wait settled --timeout 1s":                              ", see settle dlq list --local\n",
		} {
			if got := u.run(strings.Fields(line)...); got.code == command.ExitDone || !strings.HasSuffix(got.err, want) {
				u.t.Errorf("settle %s: expected the hint %q, got %+v", line, want, got)
			}
		}
	})
}

// TestHintOfAnInterruptedSendNamesTheTable stops a send after SQS has accepted its event.
func TestHintOfAnInterruptedSendNamesTheTable(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		ctx, stop := context.WithCancel(u.t.Context())
		defer stop()
		process := u.faultily(nil, func(operation, _ string) error {
			if operation == "SendMessage" {
				stop()
				return errors.New("connection lost")
			}
			return nil
		})
		got := u.runUntil(ctx, process, "send", "--local", "--table", "other", "signup/1", "CANCEL")
		if want := "; check with settle get --local --table other signup/1\n"; got.code != command.ExitInterrupted || !strings.HasSuffix(got.err, want) {
			u.t.Errorf("expected exit code 130 and %q, got %+v", want, got)
		}
	})
}

func TestHintOfMigrateNamesTheTable(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		client := dynamodb.NewFromConfig(u.stack.AWS())
		if err := dynamostore.CreateTable(u.t.Context(), client, "other"); err != nil {
			u.t.Fatal(err)
		}
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		stored, err := client.GetItem(u.t.Context(), &dynamodb.GetItemInput{TableName: aws.String(stack.Table),
			Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "work/1"}}})
		if err != nil {
			u.t.Fatal(err)
		}
		stored.Item["value"] = &types.AttributeValueMemberS{Value: "gone"}
		if _, err := client.PutItem(u.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("other"), Item: stored.Item}); err != nil {
			u.t.Fatal(err)
		}
		got := u.run("migrate", "--dry-run", "--local", "--table", "other")
		if want := "settle: no version of this build can read 1 instance: see settle check --local --table other\n"; got.err != want {
			u.t.Errorf("expected %q, got %+v", want, got)
		}
	})
}

// TestLiveQueueIsRefusedAsDeadLetterQueue passes a live queue with a waiting event to each dlq command.
func TestLiveQueueIsRefusedAsDeadLetterQueue(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 10 * time.Second}, func(u user) {
		u.must("send", "--local", "work/1", "START")
		u.must("send", "--local", "work/1", "FINISH") // FINISH waits behind START.
		const url = "http://aws.local/000000000000/"
		calls := 0
		process := u.faultily(func(operation, _ string) error {
			if operation != "" && operation != "GetQueueUrl" && operation != "GetQueueAttributes" { // "" is the request for the clock.
				calls++
			}
			return nil
		}, nil)
		both := "settle: usage: --queue and --dead-letter-queue: expected a queue and its dead-letter queue, got settle.fifo for both; " +
			"they default to SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL\n"
		local := "settle: usage: --dead-letter-queue: expected a dead-letter queue, such as settle-dlq.fifo, got "
		swapped := "settle: usage: --queue and --dead-letter-queue are swapped, or SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL are: " +
			"other-dlq.fifo is the dead-letter queue of other.fifo\n"
		u.makeQueues("other.fifo", "other-dlq.fifo")
		for flags, want := range map[string]string{
			"--dead-letter-queue settle.fifo":                                  both,
			"--dead-letter-queue " + url + "settle.fifo":                       both,
			"--dead-letter-queue settle.fifo --queue " + url + "settle.fifo/":  both,
			"--dead-letter-queue settle.fifo --queue other.fifo":               local + "settle.fifo, which is a live queue\n",
			"--dead-letter-queue " + url + "settle-delay":                      local + "settle-delay, which is a live queue\n",
			"--dead-letter-queue settle-executions":                            local + "settle-executions, which is a live queue\n",
			"--dead-letter-queue other.fifo --queue other-dlq.fifo":            swapped,
			"--dead-letter-queue other.fifo --queue " + url + "other-dlq.fifo": swapped,
		} {
			for _, line := range []string{"list", "show x", "redrive --all", "drop --all --yes", "drop --all"} {
				process.StdinTTY, process.In = true, strings.NewReader("y\n")
				got := u.runAs(process, strings.Fields("dlq "+line+" --local "+flags)...)
				if got.code != command.ExitUsage || got.err != want || got.out != "" {
					u.t.Errorf("dlq %s %s: expected exit code 2 and %q, got %+v", line, flags, want, got)
				}
			}
		}
		if calls != 0 {
			u.t.Errorf("expected nothing to be received, got %d calls other than queue lookups", calls)
		}
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "work/1"), "state     over\n")
	})
}

// makeQueues creates a FIFO queue with its dead-letter queue.
func (u user) makeQueues(queue, deadLetters string) {
	u.t.Helper()
	client := sqs.NewFromConfig(u.stack.AWS())
	for _, made := range []struct{ name, policy string }{
		{deadLetters, ""}, {queue, `{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:` + deadLetters + `", "maxReceiveCount": 3}`},
	} {
		attributes := map[string]string{"FifoQueue": "true"}
		if made.policy != "" {
			attributes["RedrivePolicy"] = made.policy
		}
		if _, err := client.CreateQueue(u.t.Context(), &sqs.CreateQueueInput{QueueName: &made.name, Attributes: attributes}); err != nil {
			u.t.Fatal(err)
		}
	}
}
