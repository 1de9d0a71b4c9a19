package simulate_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/durable"
)

// storedItem reads the item of an instance or an alias.
func (w *world) storedItem(instance string) map[string]types.AttributeValue {
	w.t.Helper()
	client := dynamodb.NewFromConfig(w.aws(w.cloud.HTTPClient(), true))
	key := map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: instance}}
	read, err := client.GetItem(w.t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: key})
	if err != nil || len(read.Item) == 0 {
		w.t.Fatalf("reading %s: %d attributes, %v", instance, len(read.Item), err)
	}
	return read.Item
}

// itemBytes returns the size of attributes by DynamoDB's rules, including names:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
func itemBytes(attributes map[string]types.AttributeValue) int {
	size := 0
	for name, value := range attributes {
		size += len(name) + attributeBytes(value)
	}
	return size
}

func attributeBytes(value types.AttributeValue) int {
	switch value := value.(type) {
	case *types.AttributeValueMemberS:
		return len(value.Value)
	case *types.AttributeValueMemberN: // items contain whole numbers only
		return (len(strings.Trim(strings.TrimLeft(value.Value, "-"), "0"))+1)/2 + 1
	case *types.AttributeValueMemberL:
		size := 3
		for _, element := range value.Value {
			size += 1 + attributeBytes(element)
		}
		return size
	case *types.AttributeValueMemberM:
		return 3 + len(value.Value) + itemBytes(value.Value)
	default: // NULL and BOOL
		return 1
	}
}

// itemParts groups the attributes of items. The attributes that it does not list belong to the runtime.
var itemParts = []struct {
	name       string
	attributes []string
}{
	{"snapshot", strings.Fields("machine chart_version status value context tags history_value timers services children deferred steps output snapshot")},
	{"history", []string{"history"}},
	{"event IDs and senders", []string{"recent_events", "last_sends"}},
	{"tokens, executions, aliases", []string{"tokens", "executions", "aliases", "parent"}},
}

// itemLine returns the table's line for an item.
func itemLine(name string, item map[string]types.AttributeValue) string {
	rest, total := maps.Clone(item), itemBytes(item)
	line := "| " + name
	for _, part := range itemParts {
		bytes := 0
		for _, attribute := range part.attributes {
			if value, ok := rest[attribute]; ok {
				bytes += len(attribute) + attributeBytes(value)
				delete(rest, attribute)
			}
		}
		line += " | " + thousands(bytes)
		if history, ok := item["history"].(*types.AttributeValueMemberL); ok && part.name == "history" {
			line += fmt.Sprintf(" (%d)", len(history.Value))
		}
	}
	return line + fmt.Sprintf(" | %s | %s | %d |\n", thousands(itemBytes(rest)), thousands(total), (total+1023)/1024)
}

// TestItemsHaveTheSizesInTheDocument plays every machine until it waits.
func TestItemsHaveTheSizesInTheDocument(t *testing.T) {
	t.Parallel()
	withUpload, _ := withFiles(nil)
	plant := &plant{jobTakes: 5 * time.Hour, status: pipeline.JobSucceeded}
	text := "| instance |"
	for _, part := range itemParts {
		text += " " + part.name + " |"
	}
	text += " the rest | bytes | write units |\n|---|---|---|---|---|---|---|---|\n"
	for _, story := range []struct {
		name, instance string
		options        options
		play           func(w *world)
	}{
		{"signup, waits for the code", registered, options{}, func(w *world) {
			w.send(registered, `{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`)
			w.await(registered, "unverified.awaiting_verification")
		}},
		{"job, in progress", pickedUp, options{}, func(w *world) {
			w.workflowJob(10, "in_progress", "")
			w.await(pickedUp, "in_progress")
		}},
		{"enrich, waits for the callback", demo, options{}, func(w *world) {
			w.enrich(demo, company)
			w.await(demo, "waiting")
		}},
		{"upload, one of two files has arrived", month, withUpload, func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.region("awaited", "held")
		}},
		{"pipeline, its job has run for two hours", nightly, options{more: []durable.Machine{plant.machine()}}, func(w *world) {
			plant.began = time.Now()
			w.startPipeline("nightly", "08:00")
			time.Sleep(2 * time.Hour)
		}},
		{"the runs' chart, after 21 events", "tally/1", options{meter: &meter{}, more: []durable.Machine{tallying()}}, func(w *world) { w.fill(textBytes, "tally/1") }},
	} {
		inWorld(t, story.options, func(w *world) {
			story.play(w)
			synctest.Wait()
			item := w.storedItem(story.instance)
			if units := w.writeUnits(story.instance); units != (itemBytes(item)+1023)/1024 {
				t.Errorf("%s: counted %d bytes, but writing it takes %d units", story.name, itemBytes(item), units)
			}
			text += itemLine(story.name, item)
		})
	}
	t.Logf("\n%s", text)
	wantInDocument(t, map[string]string{"items": text})
}
