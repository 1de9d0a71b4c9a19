package dynamo_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
)

// twins holds two models that must return the same answers. From time to time, the test replaces the second model,
// `restart`, with a copy restored from its records.
type twins struct {
	*rapid.T
	now            time.Time
	model, restart *dynamo.Model
	kept           recordtest.Kept
}

// The table "sorted" has a sort key and indexes. The table "plain" has no sort key and no indexes.
const (
	createSorted = `{"TableName": "sorted", "BillingMode": "PAY_PER_REQUEST", "Tags": [{"Key": "team", "Value": "a"}],
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "n", "AttributeType": "N"}, {"AttributeName": "x", "AttributeType": "B"}],
		"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "n", "KeyType": "RANGE"}],
		"GlobalSecondaryIndexes": [
			{"IndexName": "all", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}, {"AttributeName": "n", "KeyType": "RANGE"}], "Projection": {"ProjectionType": "ALL"}},
			{"IndexName": "some", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}], "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["v"]}}]}`
	createPlain = `{"TableName": "plain", "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 2},
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`
)

func TestRestore_answers_like_the_original_model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{T: t, now: start.Add(678), model: dynamo.New(), restart: dynamo.New(), kept: recordtest.Kept{}}
		w.restart.Keep()
		w.call("CreateTable", createSorted)
		w.call("CreateTable", createPlain)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step()
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				w.kept.Apply(w.restart.TakeRecords())
				w.restart = dynamo.New()
				if err := w.restart.Restore(w.kept.Each); err != nil {
					t.Fatal(err)
				}
				w.restart.Keep()
			}
			w.compare()
		}
		w.checkRecordsGo()
	})
}

// call makes a call on both models and compares the answers.
func (w *twins) call(operation, body string) {
	want, wantErr := w.model.Call(w.now, operation, []byte(body))
	got, gotErr := w.restart.Call(w.now, operation, []byte(body))
	if string(want) != string(got) || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
		w.Fatalf("%s %s at %v\nwant %s %v\ngot  %s %v", operation, body, w.now, want, wantErr, got, gotErr)
	}
}

// compare reads and compares everything.
func (w *twins) compare() {
	for _, table := range []string{"sorted", "plain"} {
		for _, operation := range []string{"Scan", "DescribeTable", "DescribeTimeToLive"} {
			w.call(operation, fmt.Sprintf(`{"TableName": %q}`, table))
		}
		w.call("ListTagsOfResource", fmt.Sprintf(`{"ResourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/%s"}`, table))
	}
	w.call("Scan", `{"TableName": "sorted", "IndexName": "all", "Limit": 3}`)
	w.call("Scan", `{"TableName": "sorted", "IndexName": "some"}`)
	w.call("ListTables", `{}`)
}

func (w *twins) one(of ...string) string { return rapid.SampledFrom(of).Draw(w.T, "one") }

func (w *twins) key(table string) string {
	id := w.one("a", "b", "c/d")
	if table == "plain" {
		return fmt.Sprintf(`"id": {"S": %q}`, id)
	}
	return fmt.Sprintf(`"id": {"S": %q}, "n": {"N": %q}`, id, w.one("1", "-2.5", "1e100"))
}

func (w *twins) item(table string) string {
	item := w.key(table) + fmt.Sprintf(`, "v": %s`, w.one(
		`{"S": "é\u0000<"}`, `{"N": "-1.50e-3"}`, `{"N": "0"}`, `{"B": "AP8="}`, `{"BOOL": true}`, `{"BOOL": false}`, `{"NULL": true}`, `{"S": ""}`,
		`{"M": {}}`, `{"L": []}`, `{"M": {"deep": {"L": [{"SS": ["b", "a"]}, {"NS": ["3", "1e1"]}, {"BS": ["AA==", "AQ=="]}, {"M": {"x": {"NULL": true}}}]}}}`))
	if w.one("indexed", "not") == "indexed" {
		item += fmt.Sprintf(`, "x": {"B": %q}`, w.one("AA==", "Ag=="))
	}
	if w.one("expires", "never") == "expires" {
		deadline := w.now.Unix() + int64(rapid.SampledFrom([]int{-200_000_000, -100, 0, 30, 300}).Draw(w.T, "deadline"))
		item += fmt.Sprintf(`, %q: {"N": "%d"}`, w.one("ttl", "ttl", "other"), deadline)
	}
	return "{" + item + "}"
}

func (w *twins) step() {
	table := w.one("sorted", "sorted", "plain")
	switch w.one("put", "put", "put", "update", "delete", "transact", "transact", "batch", "wait", "wait", "ttl", "recreate") {
	case "put":
		w.call("PutItem", fmt.Sprintf(`{"TableName": %q, "Item": %s, "ReturnValues": "ALL_OLD", "ReturnConsumedCapacity": "INDEXES"}`, table, w.item(table)))
	case "update":
		w.call("UpdateItem", fmt.Sprintf(`{"TableName": %q, "Key": {%s}, "ReturnValues": "ALL_NEW", "UpdateExpression": %q, "ExpressionAttributeValues": {":v": {"N": "7"}}}`,
			table, w.key(table), w.one("SET w = :v", "SET w = :v REMOVE x", "ADD w :v", "SET ttl = :v")))
	case "delete":
		w.call("DeleteItem", fmt.Sprintf(`{"TableName": %q, "Key": {%s}, "ReturnValues": "ALL_OLD"}`, table, w.key(table)))
	case "transact":
		w.call("TransactWriteItems", fmt.Sprintf(`{"ClientRequestToken": %q, "ReturnConsumedCapacity": "TOTAL", "TransactItems": [{"Put": {"TableName": "plain", "Item": %s}}, {"Delete": {"TableName": "sorted", "Key": {%s}}}]}`,
			w.one("token", "token/2"), w.one(`{"id": {"S": "x"}}`, `{"id": {"S": "x"}, "v": {"N": "1"}}`), `"id": {"S": "a"}, "n": {"N": "1"}`))
	case "batch":
		w.call("BatchWriteItem", fmt.Sprintf(`{"RequestItems": {"sorted": [{"PutRequest": {"Item": %s}}], "plain": [{"DeleteRequest": {"Key": {%s}}}]}}`, w.item("sorted"), w.key("plain")))
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{1, 30, 61, 400}).Draw(w.T, "seconds"))*time.Second + 7)
	case "ttl":
		w.call("UpdateTimeToLive", fmt.Sprintf(`{"TableName": %q, "TimeToLiveSpecification": {"AttributeName": %q, "Enabled": %s}}`,
			table, w.one("ttl", "ttl", "other"), w.one("true", "true", "false")))
	case "recreate":
		if w.one("delete", "create") == "delete" {
			w.call("DeleteTable", fmt.Sprintf(`{"TableName": %q}`, table))
		}
		w.call("CreateTable", map[string]string{"sorted": createSorted, "plain": createPlain}[table])
	}
}

// checkRecordsGo deletes both tables and fails if any record remains.
func (w *twins) checkRecordsGo() {
	w.now = w.now.Add(time.Hour)
	w.call("TransactWriteItems", `{"TransactItems": [{"Delete": {"TableName": "sorted", "Key": {"id": {"S": "a"}, "n": {"N": "1"}}}}]}`)
	w.call("DeleteTable", `{"TableName": "sorted"}`)
	w.call("DeleteTable", `{"TableName": "plain"}`)
	w.kept.Apply(w.restart.TakeRecords())
	if len(w.kept) > 0 {
		w.Fatalf("got the records %q, expected none", slices.Sorted(maps.Keys(w.kept)))
	}
}

func TestRestore_names_the_unreadable_record(t *testing.T) {
	t.Parallel()
	m := dynamo.New()
	m.Keep()
	for _, c := range [][2]string{
		{"CreateTable", createPlain},
		{"UpdateTimeToLive", `{"TableName": "plain", "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": true}}`},
		{"TransactWriteItems", fmt.Sprintf(`{"ClientRequestToken": "token", "TransactItems": [{"Put": {"TableName": "plain", "Item": {"id": {"S": "a"}, "ttl": {"N": "%d"}}}}]}`, start.Unix())},
	} {
		if _, failed := m.Call(start, c[0], []byte(c[1])); failed != nil {
			t.Fatal(failed)
		}
	}
	k := recordtest.Kept{}
	k.Apply(m.TakeRecords())
	if len(k) != 4 {
		t.Fatalf("expected records of the table, the item, its TTL time and the token, got %q", slices.Sorted(maps.Keys(k)))
	}
	for key, value := range k {
		broken := maps.Clone(k)
		broken[key] = append(slices.Clone(value), 1)
		if err := dynamo.New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q of DynamoDB: its value is 1 bytes longer", key)) {
			t.Errorf("%q with an extra byte: got %v, expected an error that names it", key, err)
		}
	}
	broken := maps.Clone(k)
	delete(broken, "table/plain")
	if err := dynamo.New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), "table plain of DynamoDB: expected a record of the table itself") {
		t.Errorf("without the table: got %v", err)
	}
	broken = maps.Clone(k)
	broken["future/plain/x"] = nil
	if err := dynamo.New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), `"future/plain/x" of DynamoDB: expected a kind of record that this build knows`) {
		t.Errorf("an unknown kind: got %v", err)
	}
}

// The number of records of a call must not depend on the number of items in the table.
func TestTakeRecords_returns_the_changed_records(t *testing.T) {
	t.Parallel()
	m := dynamo.New()
	call(t, m, "CreateTable", createIndexedTable)
	for i := range 100 {
		call(t, m, "PutItem", fmt.Sprintf(`{"TableName": "table", "Item": {"id": {"S": "%d"}, "n": {"N": "1"}}}`, i))
	}
	m.Keep()
	call(t, m, "UpdateItem", `{"TableName": "table", "Key": {"id": {"S": "7"}}, "UpdateExpression": "SET n = :n", "ExpressionAttributeValues": {":n": {"N": "2"}}}`)
	call(t, m, "Scan", `{"TableName": "table"}`)
	records := m.TakeRecords()
	if len(records) != 1 || !strings.HasPrefix(records[0].Key, "item/table/") || records[0].Value == nil {
		t.Errorf("got the records %q, expected only the item's record", records)
	}
}
