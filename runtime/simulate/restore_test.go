package simulate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/stepcount"
	"github.com/settle-run/settle/runtime/statechart"
)

// An operator restores instances from a backup and rearms them, as in docs/backups.md.

// restored is a restored instance.
type restored struct {
	at time.Time
	// history is the length of the backup's history. `watermark` is the backup's watermark.
	history   int
	watermark map[string]string
	// steps is the step count after rearming; 0 if rearming changed nothing.
	steps int64
	// undone contains the derived IDs of all effects that were stored before the restore, except the effects in the
	// backup's outbox. The undone effects may or may not have been performed. No later send may use one of their IDs.
	undone map[string]bool
	// pending contains the derived IDs of the backup's outbox.
	pending map[string]bool
}

// consume runs the consumer on a queue. An operator may stop and restart it.
func (s *simulation) consume(ctx context.Context, queue, concurrency int) {
	f := &function{simulation: s, queue: s.queue(queue), start: s.consumer}
	s.feed(s.untilStopped, f, concurrency)
	s.stopped.Done()
	select {
	case <-s.restarted:
		s.feed(ctx, f, concurrency)
	case <-ctx.Done():
	}
}

// restore takes a backup of the instances after a random event of a producer. Later it restores one or all of them.
func (s *simulation) restore() {
	rng := rand.New(rand.NewPCG(s.seed, digestOf("restore")))
	producer := s.plan.producers[rng.IntN(len(s.plan.producers))]
	from := rng.IntN(len(producer))
	until := from + rng.IntN(len(producer)-from)
	// Pause until a unique instant, because a seed cannot decide the order within one instant.
	pause := func(longest time.Duration) time.Duration {
		return time.Duration(rng.Int64N(int64(longest)))/1000*1000 + 7
	}
	time.Sleep(lengthOf(producer[:from+1]) + pause(20*time.Second))
	backups := s.backup()
	time.Sleep(lengthOf(producer[from+1:until+1]) + pause(anyOf(rng, 20*time.Second, time.Hour, 400*24*time.Hour)))
	names := slices.Sorted(maps.Keys(backups))
	if len(names) == 0 {
		return
	}
	if rng.IntN(2) == 0 {
		names = []string{anyOf(rng, names...)}
	}
	s.stop()
	s.stopped.Wait()
	time.Sleep(functionTimeout + 7)
	s.director.killConsumers()
	time.Sleep(time.Second)
	for _, name := range names {
		s.restoreOne(name, backups[name])
	}
	s.count("instances restored from a backup", len(names))
	close(s.restarted)
}

// lengthOf returns how long a producer takes to send its events.
func lengthOf(sendings []sending) (length time.Duration) {
	for _, one := range sendings {
		length += one.after
		for _, after := range one.repeats {
			length += after
		}
	}
	return length
}

// killConsumers ends all consumer processes. The caller has waited for their invocations, so they are idle or frozen.
func (d *director) killConsumers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, process := range slices.Sorted(maps.Keys(d.onDie)) {
		if strings.HasPrefix(process, "consumer") {
			d.kill(process)
		}
	}
	d.wakeUp()
}

// backup returns the items of the instances.
func (s *simulation) backup() map[string]map[string]types.AttributeValue {
	client, items := dynamodb.NewFromConfig(s.truth()), map[string]map[string]types.AttributeValue{}
	for _, name := range s.names() {
		got, err := client.GetItem(s.t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String(table), ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: name}},
		})
		if err != nil {
			s.problem("%v", err)
		} else if got.Item != nil {
			items[name] = got.Item
		}
	}
	return items
}

// restoreOne restores an item, rearms it, and sends the instance a message, so that a consumer performs its outbox.
func (s *simulation) restoreOne(name string, item map[string]types.AttributeValue) {
	ctx, now, undone := s.t.Context(), time.Now(), len(s.load(name).History)
	if _, err := dynamodb.NewFromConfig(s.truth()).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: item}); err != nil {
		s.problem("%v", err)
		return
	}
	record := s.load(name)
	one := restored{at: now, history: len(record.History), watermark: record.Watermark, undone: map[string]bool{}, pending: map[string]bool{}}
	machines := s.machines
	if s.deployments(0, now) > 0 {
		machines = s.deployed
	}
	rearmed, err := durable.Rearm(machines, record, now, "")
	if err == nil && rearmed.Revision != record.Revision {
		one.steps = now.UnixMicro()
		if err = s.store.Commit(ctx, rearmed); err == nil {
			_, err = sqs.NewFromConfig(s.truth()).SendMessage(ctx, &sqs.SendMessageInput{
				QueueUrl: &s.queueURLs[0], MessageGroupId: &name, MessageDeduplicationId: aws.String("rearmed-" + name),
				MessageBody: aws.String(`{"type": "settle.timer", "timer": "resume"}`),
			})
		}
	}
	if err != nil {
		s.problem("rearming %s: %v", name, err)
	}
	s.count("steps undone by a restore", undone-len(record.History))
	s.ledger.restore(rearmed, one)
	s.lab.restore(name)
	s.director.addTrace("%s is restored to revision %d, with %d steps of its history", name, record.Revision, one.history)
}

// restore records that an instance was restored.
func (l *ledger) restore(record instances.Record, one restored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := record.Instance.String()
	for id := range l.committed {
		if strings.HasPrefix(id, name+"@") {
			one.undone[id] = true
		}
	}
	for _, effect := range record.Outbox {
		id := derivedID(name, record.CreatedAt, effect.ID)
		l.committed[shortened(id)], l.committed[shortened(id+".failed")] = true, true
		delete(one.undone, shortened(id))
		one.pending[shortened(id)] = true
	}
	l.stored[name] = stored{createdAt: record.CreatedAt, revision: record.Revision, owed: len(record.Outbox)}
	l.restored[name] = one
}

// restore forgets which services of an instance have ended: they may run again.
func (l *lab) restore(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.finished, instance)
	maps.DeleteFunc(l.sealed, func(key string, _ bool) bool { return strings.HasPrefix(key, instance+"@") })
}

// isUndone reports whether a restore undid a message: the backup lacks it, and the queue has not delivered it again
// since.
func (l *ledger) isUndone(instance string, message accepted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.restored[instance]
	if !ok || !message.delivered.Before(one.at) {
		return false
	}
	watermark := one.watermark[message.queue]
	return cmp.Or(cmp.Compare(len(message.sequence), len(watermark)), cmp.Compare(message.sequence, watermark)) > 0
}

// isParkedBefore reports whether an effect of a restored instance parks a message that was already parked between the
// backup and the restore. The effect stays pending until the next message of that queue arrives: see docs/backups.md.
func (l *ledger) isParkedBefore(instance string, effect statechart.Effect) bool {
	var place instances.Place
	if effect.Kind != "park.delivery" || json.Unmarshal(effect.Event, &place) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	message, ok := l.accepted[instance+" "+place.Queue][place.SequenceNumber]
	return ok && message.delivered.Before(l.restored[instance].at) && len(l.parked[message.parkingID()]) > 0
}

// isOvertaken reports whether a send from the outbox of a restored sender counts as a duplicate: see docs/backups.md.
// The send is a duplicate if the receiver has already applied a later send of this sender that the restore undid.
func (r *replay) isOvertaken(message accepted) bool {
	l := &r.simulation.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	id := message.head().ID
	sender, _, _ := strings.Cut(id, "@")
	one := l.restored[sender]
	return message.isSend() && !message.redriven && one.pending[shortened(id)] && slices.ContainsFunc(r.messages, func(other accepted) bool {
		later := other.head().ID
		return other.queue == message.queue && r.seen[later] && one.undone[shortened(later)] && compareEffects(later, id) > 0
	})
}

// compareEffects compares the steps and the positions of two derived IDs.
func compareEffects(a, b string) int {
	number := func(id string) (n [2]int64) {
		_, _ = fmt.Sscanf(id[strings.LastIndexByte(id, '/')+1:], "%d.%d", &n[0], &n[1])
		return n
	}
	x, y := number(a), number(b)
	return slices.Compare(x[:], y[:])
}

// wasUndone reports whether a restore of the sender undid the step that sent the event with the ID.
func (s *simulation) wasUndone(id string) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	sender, _, _ := strings.Cut(id, "@")
	return s.ledger.restored[sender].undone[shortened(id)]
}

// rearm raises the step count if the model has reached the end of the backup's history.
func (r *replay) rearm() {
	one := r.simulation.ledger.restored[r.name]
	if r.at != one.history || one.steps == 0 {
		return
	}
	snapshot, steps, err := stepcount.Raise(r.snapshot(), one.steps)
	if err != nil {
		panic(fmt.Sprintf("rearming %s in the model: %v", r.name, err))
	}
	if steps == one.steps { // otherwise the instance was rearmed before
		r.instance = r.restored(snapshot)
	}
}
