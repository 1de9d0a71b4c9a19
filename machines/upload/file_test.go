package upload_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// objectCreated is the EventBridge event from S3's documentation, with a file of ours.
const objectCreated = `{
	"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "Object Created", "source": "aws.s3",
	"account": "111122223333", "time": "2026-11-20T09:00:00Z", "region": "ca-central-1", "resources": ["arn:aws:s3:::sales-uploads"],
	"detail": {
		"version": "0",
		"bucket": {"name": "sales-uploads"},
		"object": {
			"key": "2026/sales_2026_11.csv", "size": 5, "etag": "b1946ac92492d2347c6235b4d2611184",
			"version-id": "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "sequencer": "617f08299329d189"
		},
		"request-id": "N4N7GDK58NMKJ12R", "requester": "123456789012", "source-ip-address": "1.2.3.4", "reason": "PutObject"
	}
}`

func TestFromObjectCreatedReturnsEventsThatTheChartDecodes(t *testing.T) {
	t.Parallel()
	id, body, err := upload.FromObjectCreated([]byte(objectCreated))
	if err != nil {
		t.Fatal(err)
	}
	event, err := upload.New(newProcessor(), upload.Config{}).Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	want := upload.SalesFile{File: upload.File{
		Bucket: "sales-uploads", Key: "2026/sales_2026_11.csv", VersionID: "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
		ETag: "b1946ac92492d2347c6235b4d2611184", Size: 5, Sequencer: "617f08299329d189", CreatedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
	}}
	if diff := cmp.Diff(want, event.Payload); id != "2026_11" || event.Type != "sales_uploaded" || diff != "" {
		t.Errorf("expected sales_uploaded for 2026_11, got %s for %s; payload (-want +got):\n%s", event.Type, id, diff)
	}
}

func TestTheMonthInTheFileNameCorrelatesBothFiles(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"sales_2026_11.csv":                       "2026_11 sales_uploaded",
		"warehouse_2026_11.csv":                   "2026_11 warehouse_uploaded",
		"incoming/2026/warehouse_2026_12.csv.gz":  "2026_12 warehouse_uploaded",
		"sales_2026_11.csv/warehouse_2027_01.txt": "2027_01 warehouse_uploaded",
	} {
		id, body, err := upload.FromObjectCreated([]byte(strings.ReplaceAll(objectCreated, "2026/sales_2026_11.csv", key)))
		var event struct{ Type string }
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if got := id + " " + event.Type; err != nil || got != want {
			t.Errorf("%s: expected %s, got %s, %v", key, want, got, err)
		}
	}
}

func TestAllEventsAboutOneUploadHaveOneID(t *testing.T) {
	t.Parallel()
	idOf := func(payload string) string {
		t.Helper()
		_, body, err := upload.FromObjectCreated([]byte(payload))
		var event struct {
			ID string `json:"$id"`
		}
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil || event.ID == "" {
			t.Fatalf("expected an event with $id, got %s, %v", body, err)
		}
		return event.ID
	}
	first := idOf(objectCreated)
	if got := idOf(strings.ReplaceAll(objectCreated, "17793124", "27793124")); got != first {
		t.Errorf("another event of the same upload: expected the ID %s, got %s", first, got)
	}
	for what, change := range map[string][2]string{
		"another upload": {"617f08299329d189", "617f08299329d18a"},
		"another key":    {"2026/sales", "2027/sales"},
		"another bucket": {`"name": "sales-uploads"`, `"name": "sales-uploads-2"`},
		"a key of 1 KB":  {"2026/sales", strings.Repeat("2026/", 200) + "sales"},
	} {
		got := idOf(strings.ReplaceAll(objectCreated, change[0], change[1]))
		if got == first || len(got) != len(first) || len(got) > statechart.EventNameBytesMax {
			t.Errorf("%s: expected an ID unlike %s of the same length, got %s", what, first, got)
		}
	}
}

func TestFromObjectCreatedErrorsNameTheExpectedInput(t *testing.T) {
	t.Parallel()
	const prefix = "not the upload of a sales or warehouse file: "
	const name = prefix + "expected a file name of kind, year and month, such as sales_2026_11.csv or warehouse_2026_11.csv, got "
	with := func(from, to string) string { return strings.ReplaceAll(objectCreated, from, to) }
	for payload, want := range map[string]string{
		``:                                       prefix + "unexpected end of JSON input",
		with("Object Created", "Object Deleted"): prefix + `expected the source aws.s3 and the detail-type "Object Created", got "aws.s3" and "Object Deleted"`,
		with(`"aws.s3"`, `"shop"`):               prefix + `expected the source aws.s3 and the detail-type "Object Created", got "shop" and "Object Created"`,
		with("sales_2026_11.csv", "report.csv"):  name + `"report.csv"`,
		with("sales_2026_11.csv", "sales_2026_13.csv"):                name + `"sales_2026_13.csv"`,
		with("sales_2026_11.csv", "sales_2026_11"):                    name + `"sales_2026_11"`,
		with("sales_2026_11.csv", "shipping_2026_11.csv"):             name + `"shipping_2026_11.csv"`,
		with("sales_2026_11.csv", "sales_2026_11.csv/"):               name + `""`,
		with("sales_2026_11.csv", "sales_2026_11 (1).csv"):            name + `"sales_2026_11 (1).csv"`,
		with(`"etag": "b1946ac92492d2347c6235b4d2611184"`, `"a": ""`): prefix + "expected an etag, got none",
		with("617f08299329d189", ""):                                  prefix + "expected a sequencer of hexadecimal digits, got 0 bytes of something else",
		with(`{"name": "sales-uploads"}`, "{}"):                       prefix + "expected the name of a bucket, got none",
	} {
		id, event, err := upload.FromObjectCreated([]byte(payload))
		if !errors.Is(err, upload.ErrObjectCreated) || err.Error() != want || id != "" || event != nil {
			t.Errorf("expected the error %q, got %v with %q, %s", want, err, id, event)
		}
	}
}

func TestAPayloadOfTheOtherKindIsRefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	chart := upload.New(newProcessor(), upload.Config{})
	for body, want := range map[string]string{
		`{"type":"sales_uploaded","bucket":"b","key":"warehouse_2026_11.csv","etag":"e","sequencer":"1"}`: "expected the name of a sales file, got the name of a warehouse file",
		`{"type":"warehouse_uploaded","bucket":"b","key":"sales_2026_11.csv","etag":"e","sequencer":"1"}`: "expected the name of a warehouse file, got the name of a sales file",
		`{"type":"warehouse_uploaded","bucket":"b","key":"secret.csv","etag":"e","sequencer":"1"}`:        "expected a file name of kind, year and month, such as sales_2026_11.csv or warehouse_2026_11.csv",
	} {
		if _, err := chart.Decode([]byte(body)); !errors.Is(err, statechart.ErrPayload) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: expected %q, got %v", body, want, err)
		}
	}
}

func TestTheNewerUploadWins(t *testing.T) {
	t.Parallel()
	at := func(bucket, key, sequencer string, second int) upload.File {
		return upload.File{
			Bucket: bucket, Key: key, ETag: bucket + key + sequencer, Sequencer: sequencer,
			CreatedAt: time.Date(2026, 11, 20, 9, 0, second, 0, time.UTC),
		}
	}
	const key = "sales_2026_11.csv"
	for what, files := range map[string]struct{ older, newer upload.File }{
		"by the sequencer, whatever the time": {at("b", key, "00A1", 1), at("b", key, "00A2", 0)},
		"by a sequencer in either case":       {at("b", key, "00b1", 0), at("b", key, "00B2", 0)},
		"by a longer sequencer":               {at("b", key, "00A1", 0), at("b", key, "00A101", 0)},
		"by a shorter sequencer":              {at("b", key, "00A1FF", 0), at("b", key, "00A2", 0)},
		"by time, for two keys":               {at("b", "x/"+key, "00A2", 0), at("b", key, "00A1", 1)},
		"by time, for two buckets":            {at("b2", key, "00A2", 0), at("b1", key, "00A1", 1)},
		"by name, for one time":               {at("b", "1/"+key, "00A2", 0), at("b", "2/"+key, "00A1", 0)},
	} {
		for _, order := range [][]upload.File{{files.older, files.newer}, {files.newer, files.older}, {files.newer, files.newer}} {
			p := statecharttest.Play(t, upload.New(newProcessor(), upload.Config{}), statecharttest.Config{})
			for _, f := range order {
				p.Send("sales_uploaded", f)
			}
			if diff := cmp.Diff(files.newer, p.Snapshot().Context.Sales.File); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", what, diff)
			}
		}
	}
	p := statecharttest.Play(t, upload.New(newProcessor(), upload.Config{}), statecharttest.Config{})
	p.Send("sales_uploaded", at("b", key, "00A1", 0))
	p.Send("sales_uploaded", at("b", key, "00A100", 5))
	if p.Handled() {
		t.Error("expected a sequencer with more zeros on the right to be equal")
	}
}
