package dynamostore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

const table = "settle"

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	testContract(t, func(t *testing.T) durable.Store {
		t.Helper()
		return dynamostore.New(newClient(t), table)
	})
}

// newClient returns a client of a DynamoDB with the empty table.
func newClient(t *testing.T) *dynamodb.Client {
	t.Helper()
	client := newLocalClient()
	if err := dynamostore.CreateTable(t.Context(), client, table); err != nil {
		t.Fatal(err)
	}
	return client
}

// newLocalClient returns a client of a DynamoDB without tables.
func newLocalClient() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   awslocal.New(awslocal.Config{}).HTTPClient(),
	})
}

func TestItemIsReadableInTheConsole(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	record := fullRecord(1)
	record.Snapshot = json.RawMessage(`{"machine": "signup", "version": 3, "status": "done", "value": "active", "context": {"n": 1.50},
		"tags": [], "timers": {"3.0": {"at": "2026-03-02T12:00:00Z"}}, "steps": 7, "novel": true,
		"children": {"mailer": {"key": "2.2", "machine": "mail"}}, "deferred": [{"id": "p-1", "event": {"type": "VERIFY", "code": 1234}}]}`)
	mustCommit(t, dynamostore.New(client, table), record)

	output, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table),
		Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "signup/42"}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
aliases L[S "provider/7c"]
attempts L[M{count:N 2, queue:S "arn:aws:sqs:eu-central-1:123456789012:events.fifo", sequence_number:S "18849496460467696129"}]
backlog_since S "2026-03-01T12:00:01.000Z"
chart_version N 3
children M{mailer:M{key:S "2.2", machine:S "mail"}}
context M{n:N 1.5}
created_at S "2026-03-01T12:00:00.000Z"
deferred L[M{event:M{code:N 1234, type:S "VERIFY"}, id:S "p-1"}]
error M{at:S "2026-03-01T12:00:01.234Z", event:S "VERIFY", message:S "tried 3 times"}
executions L[M{arn:S "an ARN", event:S "report.ended", name:S "settle-signup-42-x", started_at:S "2026-03-01T12:00:00Z", workflow:S "report"}, M{event:S "audit.ended", name:S "settle-signup-42-y", refused:M{cause:S "C", error:S "E"}, started_at:S "2026-03-01T12:00:00Z", workflow:S "audit"}]
expire_at N 1772452800
failed_effects L[M{at:S "2026-03-01T12:00:00Z", data:M{n:N 1.5, type:S "GO"}, data_bytes:N 24, error:S "denied", id:S "6.0", kind:S "send", report:S "received", target:S "job/2"}, M{at:S "2026-03-01T12:00:00Z", error:S "refused", id:S "6.1", kind:S "alias"}]
forwarded M{arn:aws:sqs:eu-central-1:123456789012:bulk.fifo:S "18849496460467696129"}
history L[M{at:S "2026-03-01T12:00:00Z", event:S "SIGN_UP", from:L[S "new"], to:L[S "registering"]}, M{at:S "2026-03-01T12:00:01.234Z", event:S "RESEND", from:L[S "registering"], ignored:BOOL true, to:L[S "registering"]}]
ignored N 3
instance S "signup/42"
lane S "bulk"
last_sends M{arn:aws:sqs:eu-central-1:123456789012:events.fifo:L[M{id:S "3.0", sender:S "job/1@1767322800000"}]}
machine S "signup"
moving M{lane:S "main", number:N 6}
outbox L[M{at:S "2026-03-01T12:00:01.234000001Z", id:S "7.0", kind:S "schedule", timer:S "7.0"}, M{event:M{n:N 9007199254740993, type:S "GO"}, id:S "7.1", kind:S "send", to:S "job/1"}, M{event:M{type:S "MOVED"}, id:S "7.2", kind:S "emit"}, M{child:S "7.3", id:S "7.3", input:L[N 1], kind:S "spawn", machine:S "job"}]
parent M{child:S "3.0", incarnation:N 1772366400000, instance:S "order/1"}
recent_events L[S "e-1", S "e-2"]
revision N 1
skipped N 2
snapshot M{novel:BOOL true}
state L[S "unverified.mail.sent", S "unverified.clock.running"]
status S "done"
steps N 7
tags L[]
timers M{3.0:M{at:S "2026-03-02T12:00:00Z"}}
tokens L[M{answer:M{output:M{outcome:S "x"}}, entered_at:S "2026-01-02T03:04:05.006Z", execution:S "an ARN", heartbeat_seconds:N 60, key:S "k1", name:S "Queued", timeout_seconds:N 300, value:S "a token"}, M{answer:M{cause:S "C", error:S "E"}, entered_at:S "2026-01-02T03:04:05Z", key:S "k2", name:S "Queued", value:S "another"}, M{entered_at:S "2026-01-02T03:04:05Z", key:S "k3", name:S "InProgress", value:S "third"}]
updated_at S "2026-03-01T12:00:01.234Z"
value S "active"
watermark M{arn:aws:sqs:eu-central-1:123456789012:events.fifo:S "18849496460467696128"}
`
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(output.Item)) {
		fmt.Fprintf(&got, "%s %s\n", name, show(output.Item[name]))
	}
	if got.String() != want[1:] {
		t.Errorf("got:\n%s\nwant:%s", &got, want)
	}
}

// show formats an attribute value as its type and value.
func show(value types.AttributeValue) string {
	switch value := value.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("S %q", value.Value)
	case *types.AttributeValueMemberN:
		return "N " + value.Value
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("BOOL %t", value.Value)
	case *types.AttributeValueMemberL:
		var elements []string
		for _, element := range value.Value {
			elements = append(elements, show(element))
		}
		return "L[" + strings.Join(elements, ", ") + "]"
	case *types.AttributeValueMemberM:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(value.Value)) {
			fields = append(fields, name+":"+show(value.Value[name]))
		}
		return "M{" + strings.Join(fields, ", ") + "}"
	default:
		return fmt.Sprintf("%T", value)
	}
}

func TestAnySnapshotLoadsAsStored(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	revision := int64(0)
	rapid.Check(t, func(r *rapid.T) {
		context, err := json.Marshal(genTree(3).Draw(r, "context"))
		if err != nil {
			r.Fatal(err)
		}
		revision++
		record := smallRecord(id, revision)
		record.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": ` + string(context) + `}`)
		if err := store.Commit(t.Context(), record); err != nil {
			r.Fatal(err)
		}
		got, err := store.Load(t.Context(), id)
		if err != nil {
			r.Fatal(err)
		}
		if !sameJSON(got.Snapshot, record.Snapshot) {
			r.Fatalf("got  %s\nwant %s", got.Snapshot, record.Snapshot)
		}
	})
}

// genTree generates values as encoding/json decodes them, with up to the given depth of lists and maps.
func genTree(depth int) *rapid.Generator[any] {
	// DynamoDB refuses an attribute without a name.
	key := rapid.StringN(1, 8, -1)
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.String().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Uint64().AsAny(),
		rapid.Float64Range(-1e100, 1e100).Filter(func(f float64) bool { return f == 0 || f > 1e-100 || f < -1e-100 }).AsAny(),
		rapid.Map(rapid.StringMatching(`-?[1-9][0-9]{0,17}(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,2})?`),
			func(s string) json.Number { return json.Number(s) }).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(genTree(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(key, genTree(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// countingClient counts the items that are put.
type countingClient struct {
	dynamostore.Client
	puts atomic.Int64
}

func (c *countingClient) PutItem(ctx context.Context, input *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	c.puts.Add(1)
	return c.Client.PutItem(ctx, input, options...)
}

func TestLoadReadsConsistently(t *testing.T) {
	t.Parallel()
	reading := &readingClient{Client: newClient(t)}
	wantRecord(t, dynamostore.New(reading, table), instances.Record{Instance: id})
	if !reading.consistently {
		t.Error("the read was eventually consistent")
	}
}

// readingClient records how the last item was read. The local DynamoDB has one copy, so a result does not show
// whether a read was consistent.
type readingClient struct {
	dynamostore.Client
	consistently bool
}

func (c *readingClient) GetItem(ctx context.Context, input *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	c.consistently = aws.ToBool(input.ConsistentRead)
	return c.Client.GetItem(ctx, input, options...)
}

func TestRevisionMustBePositive(t *testing.T) {
	t.Parallel()
	err := dynamostore.New(newClient(t), table).Commit(t.Context(), smallRecord(id, 0))
	if err == nil || !strings.Contains(err.Error(), "expected a revision of at least 1, got 0") {
		t.Errorf("got %v", err)
	}
}

func TestExpireAtIsRoundedUp(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	record := smallRecord(id, 1)
	record.ExpireAt = created.Add(time.Millisecond)
	mustCommit(t, store, record)
	record.ExpireAt = created.Add(time.Second)
	wantRecord(t, store, record)
}

func TestExpiredItemIsStillTheInstance(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	record := smallRecord(id, 1)
	record.ExpireAt = time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
	mustCommit(t, store, record)
	wantRecord(t, store, record)
	wantConflict(t, store.Commit(t.Context(), smallRecord(id, 1)))
}

func TestUnknownAttributesAreIgnored(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	store := dynamostore.New(client, table)
	mustCommit(t, store, smallRecord(id, 1))
	setAttribute(t, client, "owner", &types.AttributeValueMemberSS{Value: []string{"a", "b"}})
	wantRecord(t, store, smallRecord(id, 1))
}

func TestTheErrorOfAnUnreadableItemNamesTheAttribute(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		attribute string
		value     types.AttributeValue
		want      string
	}{
		{"revision", &types.AttributeValueMemberS{Value: "1"}, `attribute "revision": expected a number (N), got a string (S)`},
		{"revision", &types.AttributeValueMemberN{Value: "0"}, `attribute "revision": expected a revision of at least 1, got 0`},
		{"ignored", &types.AttributeValueMemberN{Value: "1.5"}, `attribute "ignored": expected a whole number of 64 bits, got 1.5`},
		{"created_at", &types.AttributeValueMemberS{Value: "yesterday"}, `attribute "created_at": expected a time such as 2026-01-02T15:04:05.000Z, got "yesterday"`},
		{"state", &types.AttributeValueMemberSS{Value: []string{"a"}}, `attribute "state": expected a string (S), number (N), boolean (BOOL), null (NULL), list (L) or map (M), got a set of strings (SS)`},
		{"outbox", &types.AttributeValueMemberM{}, `attribute "outbox": expected an array, got an object`},
		{"context", &types.AttributeValueMemberB{Value: []byte("x")}, `the snapshot: key "context": expected a string (S), number (N), boolean (BOOL), null (NULL), list (L) or map (M), got a binary (B)`},
		{"snapshot", &types.AttributeValueMemberS{Value: "x"}, `attribute "snapshot": expected a map (M), got a string (S)`},
	} {
		t.Run(test.attribute, func(t *testing.T) {
			t.Parallel()
			client := newClient(t)
			store := dynamostore.New(client, table)
			mustCommit(t, store, smallRecord(id, 1))
			setAttribute(t, client, test.attribute, test.value)
			_, err := store.Load(t.Context(), id)
			want := "decoding signup/42 in table settle: " + durable.ErrUnreadable.Error() + ": " + test.want
			if !errors.Is(err, durable.ErrUnreadable) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// setAttribute changes the item of id without the store.
func setAttribute(t *testing.T, client *dynamodb.Client, name string, value types.AttributeValue) {
	t.Helper()
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: id.String()}},
		UpdateExpression: aws.String("SET #name = :value"), ExpressionAttributeNames: map[string]string{"#name": name},
		ExpressionAttributeValues: map[string]types.AttributeValue{":value": value},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMissingTableIsNamed(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), "elsewhere")
	_, loadErr := store.Load(t.Context(), id)
	for _, err := range []error{loadErr, store.Commit(t.Context(), smallRecord(id, 1)), store.ClearOutbox(t.Context(), id, 1, durable.Left{})} {
		if !errors.Is(err, dynamostore.ErrNoTable) || !strings.Contains(err.Error(), "signup/42") || !strings.Contains(err.Error(), "table elsewhere") {
			t.Errorf("got %v, want ErrNoTable with instance and table", err)
		}
	}
}

func TestCreateTableKeepsAnExistingTableAndItsTTL(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	store := dynamostore.New(client, table)
	mustCommit(t, store, smallRecord(id, 1))
	if err := dynamostore.CreateTable(t.Context(), client, table); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, store, smallRecord(id, 1))
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(ttl.TimeToLiveDescription.AttributeName); got != "expire_at" {
		t.Errorf("TTL on %q, want expire_at", got)
	}
}
