package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/internal/load"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// measurement sends the events of a benchmark to instances of its own.
type measurement struct {
	*bench
	targets []*benchTarget
	// requests counts the requests that sent the events.
	requests int
	// lags records how late each event of a paced measurement was sent.
	lags []time.Duration
}

// benchTarget is an instance of a measurement.
type benchTarget struct {
	id instances.ID
	// scheduled is when the instance's event was due. sent and queued are the times before and after the request. All
	// three are zero if the measurement is not paced.
	scheduled, sent, queued time.Time

	mu sync.Mutex
	// last is the largest sequence number of the instance's events. It is empty if no event was sent.
	last string
	// record is the instance as last read.
	record instances.Record
}

// newMeasurement returns a measurement that sends nothing yet.
func (b *bench) newMeasurement(name string, count int) *measurement {
	m := &measurement{bench: b}
	for n := range count {
		m.targets = append(m.targets, &benchTarget{id: instances.ID{Machine: b.machine, ID: fmt.Sprintf("%s-%s-%d", b.run, name, n)}})
	}
	return m
}

// queue records the sequence number of an event that is now in the queue.
func (t *benchTarget) queue(sequence string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if instances.CompareSequence(sequence, t.last) > 0 {
		t.last = sequence
	}
}

// isApplied reports whether the instance, as last read, has applied all its events.
func (t *benchTarget) isApplied(queue string) bool {
	applied := max(instances.CompareSequence(t.record.Watermark[queue], t.last), instances.CompareSequence(t.record.Forwarded[queue], t.last))
	return applied >= 0 && !t.record.Owes()
}

// sendPaced sends one event to each instance, at --rate. Each event starts its instance, so the instance's last
// commit belongs to this event.
func (m *measurement) sendPaced(ctx context.Context) error {
	sending, stop := graceful(ctx)
	defer stop()
	task := m.session.newTask("sending")
	defer task.end()
	now, failed := m.session.Now, make([]error, len(m.targets))
	lags, err := load.Pace(ctx, now, len(m.targets), m.flags.Rate, func(i int, scheduled time.Time) {
		t := m.targets[i]
		message := m.event.Message
		message.To, message.DeduplicationID = t.id, rand.Text()
		task.say(fmt.Sprintf("sending event %d of %d", i+1, len(m.targets)))
		t.scheduled, t.sent = scheduled, now()
		var sequence string
		if _, sequence, failed[i] = m.bench.queue.Enqueue(sending, message); failed[i] == nil {
			t.queued = now()
			t.queue(sequence)
		}
	})
	m.lags, m.requests = lags, len(lags)
	return cmp.Or(cmp.Or(failed...), err)
}

// sendAtOnce sends the benchmark's events in batches, as fast as it can, and spreads them evenly over the instances.
func (m *measurement) sendAtOnce(ctx context.Context) error {
	sending, stop := graceful(ctx)
	defer stop()
	progress := m.session.newProgress("request sent", "requests sent")
	defer progress.end()
	return inParallel(ctx, m.batches(), func(_ context.Context, batch []*benchTarget) error {
		defer progress.add()
		return m.sendBatch(sending, batch)
	})
}

// batches yields the instances of each batch of events.
func (m *measurement) batches() iter.Seq2[[]*benchTarget, error] {
	return func(yield func([]*benchTarget, error) bool) {
		for first := 0; first < m.flags.Events; first += sqsqueue.SendBatchMax {
			var batch []*benchTarget
			for i := first; i < min(first+sqsqueue.SendBatchMax, m.flags.Events); i++ {
				batch = append(batch, m.targets[i%len(m.targets)])
			}
			m.requests++
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// sendBatch sends an event to each of the instances. Unlike sqsqueue.Queue, it may put several events for one instance
// into a batch: the events are equal, so their order does not matter.
func (m *measurement) sendBatch(ctx context.Context, batch []*benchTarget) error {
	var entries []types.SendMessageBatchRequestEntry
	for i, t := range batch {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.event.Message.Body)),
			MessageGroupId: aws.String(t.id.String()), MessageDeduplicationId: aws.String(rand.Text()),
		})
	}
	output, err := m.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &m.url, Entries: entries})
	if err != nil {
		return fmt.Errorf("sending %s: %w", counted(len(batch), "event", "events"), err)
	}
	for _, sent := range output.Successful {
		i, err := strconv.Atoi(aws.ToString(sent.Id))
		if err != nil || i >= len(batch) {
			return fmt.Errorf("sending events: expected the ID of an entry, got %q", aws.ToString(sent.Id))
		}
		batch[i].queue(aws.ToString(sent.SequenceNumber))
	}
	if len(output.Failed) > 0 {
		first := output.Failed[0]
		return fmt.Errorf("SQS refused %d of %d events: %s: %s; a lower --events may fit its limits", len(output.Failed), len(batch), aws.ToString(first.Code), aws.ToString(first.Message))
	}
	return nil
}

// await reads the instances until all have applied their events. It fails with errTimeUp if no instance changes for
// benchIdleMax.
func (m *measurement) await(ctx context.Context) error {
	task := m.session.newTask("waiting for the instances")
	defer task.end()
	pause, writes, changed := producer.PollFirst, int64(-1), m.session.Now()
	waiting := slices.DeleteFunc(slices.Clone(m.targets), func(t *benchTarget) bool { return t.last == "" })
	for {
		reads := func(yield func(*benchTarget, error) bool) {
			for _, t := range waiting {
				if !yield(t, nil) {
					return
				}
			}
		}
		err := inParallel(ctx, reads, func(ctx context.Context, t *benchTarget) (err error) {
			t.record, err = m.store.Load(ctx, t.id)
			return err
		})
		if err != nil {
			return err
		}
		waiting = slices.DeleteFunc(waiting, func(t *benchTarget) bool { return t.isApplied(m.arn) })
		if len(waiting) == 0 {
			return nil
		}
		switch now, all := m.session.Now(), m.writes(); {
		case all != writes:
			writes, changed = all, now
		case now.Sub(changed) > benchIdleMax:
			return fmt.Errorf("%w: %s of the run %s did not change for %v, such as %s: see %s and the log of the consumer",
				errTimeUp, counted(len(waiting), "instance", "instances"), m.run, benchIdleMax, waiting[0].id, m.session.hint("dlq list"))
		}
		task.say(fmt.Sprintf("%d of %d instances have applied their events", len(m.targets)-len(waiting), len(m.targets)))
		if err := load.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = producer.NextPoll(pause)
	}
}

// writes returns the number of writes of the instances, as last read.
func (m *measurement) writes() (sum int64) {
	for _, t := range m.targets {
		sum += t.record.Revision
	}
	return sum
}

// clean terminates the instances. If the measurement was interrupted, clean first waits until the queued events are
// applied. Otherwise these events would start instances later.
func (m *measurement) clean(ctx context.Context, interrupted bool) error {
	cleaning, stop := graceful(ctx)
	defer stop()
	var err error
	if interrupted {
		err = m.await(cleaning)
	}
	progress := m.session.newProgress("instance ended", "instances ended")
	defer progress.end()
	sent := func(yield func(*benchTarget, error) bool) {
		for _, t := range m.targets {
			if t.last != "" && !yield(t, nil) {
				return
			}
		}
	}
	ended := inParallel(cleaning, sent, func(ctx context.Context, t *benchTarget) error {
		defer progress.add()
		switch err := m.end(ctx, t.id); {
		case errors.Is(err, instances.ErrEnded):
			return nil
		case errors.Is(err, errNotFound):
			return fmt.Errorf("%s has not started: its event is in the queue or parked", t.id)
		default:
			return err
		}
	})
	if err = cmp.Or(err, ended); err != nil {
		return fmt.Errorf("instances of the run are left: %w: run %s", err, m.session.hint("bench", "--clean", m.run, "--machine", m.machine))
	}
	return nil
}

// measure sends the events with `send`, waits until they are applied, and terminates the instances.
func (m *measurement) measure(ctx context.Context, send func(context.Context) error) (measured, error) {
	m.puts.take()
	before := m.session.read.units()
	items := m.session.read.items.Load()
	err := send(ctx)
	if err == nil {
		err = m.await(ctx)
	}
	result := m.measured()
	if items = m.session.read.items.Load() - items; items > 0 {
		result.ReadUnits = float64(m.session.read.units()-before) / float64(items)
	}
	if left := m.clean(ctx, err != nil && !errors.Is(err, errTimeUp)); left != nil {
		return result, errors.Join(stopped(ctx, err), left)
	}
	if count := m.puts.take(); count.puts > 0 {
		result.WriteUnits, result.IndexUnits = count.table/count.puts, count.indexes/count.puts
	}
	result.compute()
	return result, err
}

// measureAll makes all measurements, one after the other.
func (b *bench) measureAll(ctx context.Context) (benchReport, error) {
	c := b.flags
	report := b.newReport()
	paced, one, many := b.newMeasurement("paced", c.Events), b.newMeasurement("one", 1), b.newMeasurement("many", c.Instances)
	var err error
	if report.Paced.measured, err = paced.measure(ctx, paced.sendPaced); err != nil {
		return report, err
	}
	report.Paced.add(paced)
	if report.One, err = one.measure(ctx, one.sendAtOnce); err != nil {
		return report, err
	}
	if report.Many, err = many.measure(ctx, many.sendAtOnce); err != nil {
		return report, err
	}
	if c.StepFunctions != "" {
		report.StepFunctions, err = b.measureWorkflows(ctx)
	}
	return report, err
}
