package sqs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// maxReceiveCountMax is the highest maxReceiveCount that SQS accepts.
const maxReceiveCountMax = 1000

// redrivePolicy names a queue's dead-letter queue, and limits the receives of a message before it moves there.
type redrivePolicy struct {
	target          string // name of the dead-letter queue
	maxReceiveCount uint32
}

// parseRedrivePolicy parses the attribute RedrivePolicy. As in SQS, the count may be a string.
func parseRedrivePolicy(text string) (*redrivePolicy, error) {
	var policy struct {
		DeadLetterTargetArn string          `json:"deadLetterTargetArn"`
		MaxReceiveCount     json.RawMessage `json:"maxReceiveCount"`
	}
	if err := decodeStrictly(text, &policy); err != nil {
		return nil, fmt.Errorf("expected JSON with deadLetterTargetArn and maxReceiveCount: %w", err)
	}
	name, ok := strings.CutPrefix(policy.DeadLetterTargetArn, arnPrefix)
	if !ok {
		return nil, fmt.Errorf("expected a deadLetterTargetArn that begins with %s, got %q",
			arnPrefix, policy.DeadLetterTargetArn)
	}
	count, err := strconv.Atoi(strings.Trim(string(policy.MaxReceiveCount), `"`))
	if err != nil || count < 1 || count > maxReceiveCountMax {
		return nil, fmt.Errorf("expected a maxReceiveCount from 1 to %d, got %s",
			maxReceiveCountMax, policy.MaxReceiveCount)
	}
	return &redrivePolicy{target: name, maxReceiveCount: uint32(count)}, nil
}

// redriveAllowPolicy says which queues may use a queue as their dead-letter queue.
type redriveAllowPolicy struct {
	RedrivePermission string   `json:"redrivePermission"`
	SourceQueueArns   []string `json:"sourceQueueArns"`
}

func parseRedriveAllowPolicy(text string) (*redriveAllowPolicy, error) {
	var policy redriveAllowPolicy
	if err := decodeStrictly(text, &policy); err != nil {
		return nil, fmt.Errorf("expected JSON with redrivePermission: %w", err)
	}
	switch {
	case !slices.Contains([]string{"allowAll", "denyAll", "byQueue"}, policy.RedrivePermission):
		return nil, fmt.Errorf("expected a redrivePermission of allowAll, denyAll or byQueue, got %q",
			policy.RedrivePermission)
	case policy.RedrivePermission == "byQueue" && (len(policy.SourceQueueArns) < 1 || len(policy.SourceQueueArns) > 10):
		return nil, fmt.Errorf("expected 1 to 10 sourceQueueArns with byQueue, got %d", len(policy.SourceQueueArns))
	case policy.RedrivePermission != "byQueue" && len(policy.SourceQueueArns) > 0:
		return nil, fmt.Errorf("expected no sourceQueueArns with %s", policy.RedrivePermission)
	}
	return &policy, nil
}

func (p *redriveAllowPolicy) allows(source string) bool {
	return p == nil || p.RedrivePermission == "allowAll" ||
		p.RedrivePermission == "byQueue" && slices.Contains(p.SourceQueueArns, QueueARN(source))
}

func decodeStrictly(text string, value any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

// checkRedrive returns an error if a queue cannot have the redrive policy. The target must exist, have the same type
// and allow the queue as a source.
func (m *Model) checkRedrive(name string, fifo bool, policy *redrivePolicy) *wire.Error {
	if policy == nil {
		return nil
	}
	refuse := func(reason string) *wire.Error {
		return invalidParameter("RedrivePolicy", QueueARN(policy.target), reason)
	}
	target, ok := m.queues[policy.target]
	switch {
	case !ok:
		return refuse("Dead letter target does not exist; create it first.")
	case target.fifo != fifo:
		return refuse("Dead-letter queue must be same type of queue as the source.")
	case !target.settings.redriveAllow.allows(name):
		return refuse("The RedriveAllowPolicy of the dead-letter queue does not allow " + QueueARN(name) + ".")
	}
	return nil
}

// deadLetterQueue returns the queue to which msg must move instead of being received from q again. It returns nil if
// msg can be received. If the dead-letter queue no longer exists, messages stay in q.
func (m *Model) deadLetterQueue(q *queue, msg *message) *queue {
	policy := q.settings.redrive
	if policy == nil || msg.receivesHere < policy.maxReceiveCount {
		return nil
	}
	if dlq := m.queues[policy.target]; dlq != q {
		return dlq
	}
	return nil
}

// redrive moves an available message to the end of its group in the dead-letter queue. The MessageId and the receive
// count stay the same. On a FIFO queue, the MessageId becomes the deduplication ID and the retention period restarts.
// On a standard queue the retention period continues (SQS Developer Guide, "Using dead-letter queues in Amazon SQS" and
// "Exactly-once processing in Amazon SQS").
func (m *Model) redrive(now time.Time, q *queue, msg *message, dlq *queue) {
	groupID := msg.group.id
	q.remove(msg)
	dlq.advance(now)
	msg.sequence = m.nextSerial()
	msg.receivesHere = 0
	msg.source = QueueARN(q.name)
	if dlq.fifo {
		msg.sentAt, msg.dedupID = now, msg.id()
	}
	dlq.add(msg, groupID)
	m.touch(dlq.name)
}
