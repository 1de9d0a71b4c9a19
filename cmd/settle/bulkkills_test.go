package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// make bulk-kills sets these variables.
const (
	bulkInstances = "SETTLE_TEST_BULK_INSTANCES"
	bulkKills     = "SETTLE_TEST_BULK_KILLS"
	bulkSeed      = "SETTLE_TEST_BULK_SEED"
)

const (
	// bulkCalls is the number of AWS calls for each listed instance: two reads, a write and a message.
	bulkCalls = 4
	// bulkRevision is the last revision of an instance. An instance is written three times: when it starts, when it is
	// stopped, and after its effects are performed.
	bulkRevision = 3
	// bulkWorkers is how many instances settle bulk processes at a time.
	bulkWorkers = 8
	// bulkGrowthMax limits the peak memory of a run, as a multiple of the peak of a run with a tenth of the instances.
	bulkGrowthMax = 1.25
	// bulkTenthMin is the minimum number of instances in the smaller run of TestBulkMemoryDoesNotGrow: ten pages of the
	// list.
	bulkTenthMin = 10 * dynamostore.PageInstancesMax
)

// run repeats settle bulk stop until a process ends without being killed, and checks that each instance was stopped
// once.
func (b *bulkTrial) run(count, kills int) {
	b.t.Helper()
	began := time.Now()
	for life := 0; ; life++ {
		out, errOut, err := b.live()
		if life < kills && fmt.Sprint(err) == "signal: killed" && b.ctx.Err() == nil {
			continue
		}
		var report struct{ Instances, Changed, Skipped, Failed int }
		if err := errors.Join(err, json.Unmarshal([]byte(out), &report)); err != nil || life != kills {
			b.t.Fatalf("process %d: expected %d kills, got %v and %q%q", life+1, kills, err, out, errOut)
		}
		if report.Instances != count || report.Changed != count {
			b.t.Errorf("expected %d instances, all changed, got %s", count, out)
		}
		break
	}
	stopped := time.Since(began)
	b.serving.Wait()
	b.awaitRest()
	b.t.Logf("%d instances, %d kills (%v): stopped in %v, settled in %v; %d calls, %d writes, %d messages; peak memory %d KB", count, kills, b.fates,
		stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), b.calls, b.done["PutItem"], b.done["SendMessage"], b.peak)
	b.check(count, kills)
}

// awaitRest waits until the consumer has handled all messages.
func (b *bulkTrial) awaitRest() {
	b.t.Helper()
	client, names := sqs.NewFromConfig(b.stack.AWS()), []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	for {
		output, err := client.GetQueueAttributes(b.ctx, &sqs.GetQueueAttributesInput{QueueUrl: aws.String(b.stack.QueueURL()), AttributeNames: names})
		if err != nil {
			b.t.Fatal(err)
		}
		if output.Attributes[string(names[0])] == "0" && output.Attributes[string(names[1])] == "0" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// check checks the history, the revision and the effects of each instance, and the outcomes in the journal.
func (b *bulkTrial) check(count, kills int) {
	b.t.Helper()
	reason := fmt.Sprintf("(bulk %d)", b.checkJournal(count))
	wrong, found := 0, 0
	for record, err := range dynamostore.New(dynamodb.NewFromConfig(b.stack.AWS()), stack.Table).List(b.ctx, dynamostore.Filter{Machine: "lamp"}) {
		if err != nil {
			b.t.Fatal(err)
		}
		found++
		stops := 0
		for _, transition := range record.History {
			if transition.Event == "settle.stop" && transition.Reason == reason {
				stops++
			}
		}
		if stops != 1 || len(record.History) != 2 || record.Revision != bulkRevision || record.Status != statechart.Stopped || record.Owes() || len(record.FailedEffects) > 0 {
			if wrong++; wrong <= 5 {
				b.t.Errorf("%s: expected one stop at revision %d and no effects left, got status %s at revision %d, effects %v, history %v", record.Instance, bulkRevision, record.Status, record.Revision, record.Outbox, record.History)
			}
		}
	}
	if found != count || wrong > 0 {
		b.t.Errorf("expected %d instances, got %d, %d of them wrong", count, found, wrong)
	}
	b.emitted.mu.Lock()
	defer b.emitted.mu.Unlock()
	for id, times := range b.emitted.times {
		if times != 1 {
			b.t.Errorf("expected event %q once, got it %d times", id, times)
		}
	}
	if events := len(b.emitted.times); events != count {
		b.t.Errorf("expected events of %d instances, got %d", count, events)
	}
	if writes := b.done["PutItem"]; writes != count {
		b.t.Errorf("expected %d writes, got %d", count, writes)
	}
	if messages := b.done["SendMessage"]; messages < count || messages > count+kills*bulkWorkers {
		b.t.Errorf("expected %d messages, and %d more for each kill at most, got %d", count, bulkWorkers, messages)
	}
}

// checkJournal checks that each instance has one outcome, and returns the stamp of the run.
func (b *bulkTrial) checkJournal(count int) (stamp int64) {
	b.t.Helper()
	file, err := os.Open(b.journal)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	outcomes := map[int]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Stamp int64
			Done  *int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			b.t.Fatalf("%s: %v", lines.Text(), err)
		}
		stamp = max(stamp, line.Stamp)
		if line.Done != nil {
			outcomes[*line.Done]++
		}
	}
	for number, times := range outcomes {
		if times != 1 {
			b.t.Errorf("expected one outcome of instance %d, got %d", number, times)
		}
	}
	if len(outcomes) != count {
		b.t.Errorf("expected outcomes of %d instances, got %d", count, len(outcomes))
	}
	return stamp
}

// number returns the value of an environment variable. If the variable is not set, number returns `otherwise`.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text, isSet := os.LookupEnv(variable)
	if !isSet || text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 0 {
		t.Fatalf("%s: expected a number, got %q", variable, text)
	}
	return value
}

// TestBulkStopsEachInstanceOnce runs settle bulk stop in processes, which the test kills at random calls.
func TestBulkStopsEachInstanceOnce(t *testing.T) {
	t.Parallel()
	count, kills, seed := number(t, bulkInstances, 300), number(t, bulkKills, 3), number(t, bulkSeed, rand.IntN(1<<30))
	t.Logf("seed %d", seed)
	startBulkTrial(t, uint64(seed), count, kills).run(count, kills)
}

// TestBulkMemoryDoesNotGrow compares the memory of settle bulk stop with its memory for a tenth of the instances.
func TestBulkMemoryDoesNotGrow(t *testing.T) {
	t.Parallel()
	count := number(t, bulkInstances, 0)
	if tenth := count / 10; runtime.GOOS != "linux" || tenth < bulkTenthMin {
		t.Skipf("expected Linux, and at least %d instances in %s: run make bulk-kills", 10*bulkTenthMin, bulkInstances)
	}
	peaks := [2]int{}
	for i, count := range []int{count / 10, count} {
		b := startBulkTrial(t, 0, count, 0)
		b.run(count, 0)
		peaks[i] = b.peak
	}
	if growth := float64(peaks[1]) / float64(peaks[0]); growth > bulkGrowthMax {
		t.Errorf("expected at most %v times the memory of a tenth of the instances, got %.2f times: %d KB after %d KB", bulkGrowthMax, growth, peaks[1], peaks[0])
	}
}
