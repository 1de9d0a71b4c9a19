package dynamostore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// The attributes of an item, in addition to those in snapshotAttributes.
const (
	attrInstance     = "instance"
	attrChartVersion = "chart_version"
	attrSnapshot     = "snapshot"
	attrState        = "state"
	attrStatus       = "status"
	attrTags         = "tags"
	attrRevision     = "revision"
	attrCreatedAt    = "created_at"
	attrUpdatedAt    = "updated_at"
	attrExpireAt     = "expire_at"
	attrKept         = "kept"
	attrForgotten    = "forgotten"
	attrWatermark    = "watermark"
	attrLane         = "lane"
	attrMoving       = "moving"
	attrForwarded    = "forwarded"
	attrRecentEvents = "recent_events"
	attrLastSends    = "last_sends"
	attrHistory      = "history"
	attrIgnored      = "ignored"
	attrSkipped      = "skipped"
	attrOutbox       = "outbox"
	attrOutboxRev    = "outbox_revision"
	attrTokens       = "tokens"
	attrExecutions   = "executions"
	attrParent       = "parent"
	attrAliases      = "aliases"
	attrFailed       = "failed_effects"
	attrAttempts     = "attempts"
	attrError        = "error"
	attrChains       = "chains"
	attrDeniedSince  = "denied_since"
	attrBacklogSince = "backlog_since"
)

// attributesUsual is the initial capacity of an item. Few items have more attributes.
const attributesUsual = 24

// encodeItem returns the item of a record. decodeItem is its inverse.
func encodeItem(record instances.Record) (map[string]types.AttributeValue, error) {
	if record.Revision < 1 {
		return nil, fmt.Errorf("expected a revision of at least 1, got %d", record.Revision)
	}
	item := make(map[string]types.AttributeValue, attributesUsual)
	item[attrInstance], item[attrRevision] = text(record.Instance.String()), number(record.Revision)
	if record.Status != "" {
		item[attrStatus] = text(string(record.Status))
	}
	if record.Lane != "" {
		item[attrLane] = text(record.Lane)
	}
	if !record.CreatedAt.IsZero() {
		item[attrCreatedAt] = text(formatTime(record.CreatedAt))
	}
	if !record.UpdatedAt.IsZero() {
		item[attrUpdatedAt] = text(formatTime(record.UpdatedAt))
	}
	if !record.ExpireAt.IsZero() {
		item[attrExpireAt] = number(expireSeconds(record.ExpireAt))
	}
	if record.Kept {
		item[attrKept] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if record.Forgotten {
		item[attrForgotten] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if !record.DeniedSince.IsZero() {
		item[attrDeniedSince] = text(formatTime(record.DeniedSince))
	}
	if !record.BacklogSince.IsZero() {
		item[attrBacklogSince] = text(formatTime(record.BacklogSince))
	}
	if record.Ignored != 0 {
		item[attrIgnored] = number(record.Ignored)
	}
	if record.OutboxRevision != 0 {
		item[attrOutboxRev] = number(record.OutboxRevision)
	}
	if record.Skipped != 0 {
		item[attrSkipped] = number(record.Skipped)
	}
	if err := putSnapshot(item, record.Snapshot, record.Status); err != nil {
		return nil, err
	}
	for _, field := range []struct {
		attribute string
		empty     bool
		value     any
	}{
		{attrState, len(record.State) == 0, record.State},
		{attrWatermark, len(record.Watermark) == 0, record.Watermark},
		{attrMoving, record.Moving == nil, record.Moving},
		{attrForwarded, len(record.Forwarded) == 0, record.Forwarded},
		{attrRecentEvents, len(record.RecentEvents) == 0, record.RecentEvents},
		{attrLastSends, len(record.LastSends) == 0, record.LastSends},
		{attrHistory, len(record.History) == 0, record.History},
		{attrOutbox, len(record.Outbox) == 0, record.Outbox},
		{attrTokens, len(record.Tokens) == 0, record.Tokens},
		{attrExecutions, len(record.Executions) == 0, record.Executions},
		{attrParent, record.Parent == nil, record.Parent},
		{attrAliases, len(record.Aliases) == 0, record.Aliases},
		{attrFailed, len(record.FailedEffects) == 0, record.FailedEffects},
		{attrAttempts, len(record.Attempts) == 0, record.Attempts},
		{attrError, record.Error == nil, record.Error},
		{attrChains, len(record.Chains) == 0, record.Chains},
	} {
		if field.empty {
			continue
		}
		value, err := attributeOf(field.attribute, field.value)
		if err != nil {
			return nil, err
		}
		item[field.attribute] = value
	}
	return item, nil
}

// decodeItem decodes an item from encodeItem. Empty values decode as nil. Its errors wrap durable.ErrUnreadable.
func decodeItem(item map[string]types.AttributeValue) (instances.Record, error) {
	record, err := recordOf(item)
	if err != nil {
		return instances.Record{}, fmt.Errorf("%w: %w", durable.ErrUnreadable, err)
	}
	return record, nil
}

func recordOf(item map[string]types.AttributeValue) (instances.Record, error) {
	r := reader{item: item}
	id, err := instances.ParseID(r.text(attrInstance))
	if err != nil && r.err == nil {
		return instances.Record{}, err
	}
	record := instances.Record{
		Instance:  id,
		Revision:  r.integer(attrRevision),
		Status:    statechart.Status(r.text(attrStatus)),
		Lane:      r.text(attrLane),
		CreatedAt: r.time(attrCreatedAt),
		UpdatedAt: r.time(attrUpdatedAt),
		Ignored:   r.integer(attrIgnored),
		Skipped:   r.integer(attrSkipped),

		OutboxRevision: r.integer(attrOutboxRev),
		BacklogSince:   r.time(attrBacklogSince),
	}
	if seconds := r.integer(attrExpireAt); seconds != 0 {
		record.ExpireAt = time.Unix(seconds, 0).UTC()
	}
	if kept, ok := item[attrKept].(*types.AttributeValueMemberBOOL); ok {
		record.Kept = kept.Value
	}
	if forgotten, ok := item[attrForgotten].(*types.AttributeValueMemberBOOL); ok {
		record.Forgotten = forgotten.Value
	}
	if _, denied := item[attrDeniedSince]; denied {
		record.DeniedSince = r.time(attrDeniedSince)
	}
	r.json(attrState, &record.State)
	r.json(attrWatermark, &record.Watermark)
	r.json(attrMoving, &record.Moving)
	r.json(attrForwarded, &record.Forwarded)
	r.json(attrRecentEvents, &record.RecentEvents)
	r.json(attrLastSends, &record.LastSends)
	r.json(attrHistory, &record.History)
	r.json(attrOutbox, &record.Outbox)
	r.json(attrTokens, &record.Tokens)
	r.json(attrExecutions, &record.Executions)
	r.json(attrParent, &record.Parent)
	r.json(attrAliases, &record.Aliases)
	r.json(attrFailed, &record.FailedEffects)
	r.json(attrAttempts, &record.Attempts)
	r.json(attrError, &record.Error)
	r.json(attrChains, &record.Chains)
	if r.err != nil {
		return instances.Record{}, r.err
	}
	if record.Revision < 1 {
		return instances.Record{}, fmt.Errorf("attribute %q: expected a revision of at least 1, got %d", attrRevision, record.Revision)
	}
	if err := cmp.Or(checkSequence(attrWatermark, record.Watermark), checkSequence(attrForwarded, record.Forwarded)); err != nil {
		return instances.Record{}, err
	}
	if record.CreatedAt.IsZero() {
		// Without this time, the instance's timers would be mistaken for the timers of an earlier instance of the same
		// name.
		return instances.Record{}, fmt.Errorf("attribute %q: expected a time such as 2026-01-02T15:04:05.000Z, got none", attrCreatedAt)
	}
	record.Snapshot, err = snapshotOf(item)
	return record, err
}

// checkSequence checks the sequence numbers of queues. If a value is not a sequence number, a comparison with it might
// count every event as applied.
func checkSequence(attribute string, numbers map[string]string) error {
	for _, queue := range slices.Sorted(maps.Keys(numbers)) {
		if got := numbers[queue]; got == "" || strings.Trim(got, "0123456789") != "" || len(got) > instances.SequenceDigitsMax {
			return fmt.Errorf("attribute %q: queue %s: expected a sequence number of 1 to %d digits, got %q", attribute, queue, instances.SequenceDigitsMax, got)
		}
	}
	return nil
}

// reader reads typed attributes and keeps the first error. A missing attribute reads as the zero value.
type reader struct {
	item   map[string]types.AttributeValue
	err    error
	buffer []byte // reused by json
}

func (r *reader) fail(attribute string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %q: %w", attribute, err)
	}
}

func (r *reader) text(attribute string) string {
	switch value := r.item[attribute].(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return value.Value
	default:
		r.fail(attribute, fmt.Errorf("expected a string (S), got %s", typeName(value)))
		return ""
	}
}

func (r *reader) integer(attribute string) int64 {
	switch value := r.item[attribute].(type) {
	case nil:
		return 0
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(value.Value, 10, 64)
		if err != nil {
			r.fail(attribute, fmt.Errorf("expected a whole number of 64 bits, got %s", value.Value))
		}
		return n
	default:
		r.fail(attribute, fmt.Errorf("expected a number (N), got %s", typeName(value)))
		return 0
	}
}

func (r *reader) time(attribute string) time.Time {
	value := r.text(attribute)
	if value == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		r.fail(attribute, fmt.Errorf("expected a time such as 2026-01-02T15:04:05.000Z, got %q", value))
	}
	return t
}

func (r *reader) json(attribute string, into any) {
	value, ok := r.item[attribute]
	if !ok {
		return
	}
	data, err := appendJSON(r.buffer[:0], value)
	if err == nil {
		r.buffer = data
		err = readjson.Unmarshal(data, into) // its errors quote no values, which may be secrets or tokens
	}
	if err != nil {
		r.fail(attribute, err)
	}
}

// expireSeconds converts a time to DynamoDB's time to live, rounded up to the second.
func expireSeconds(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// formatTime formats a time in UTC by RFC 3339, with milliseconds, or with more digits if it has them.
func formatTime(t time.Time) string {
	if t.Nanosecond()%int(time.Millisecond) == 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
