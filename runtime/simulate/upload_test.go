package simulate_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	month = "upload/2026_11"
	// uploadWindow is shorter than in production, to shorten the test.
	uploadWindow = 24 * time.Hour
)

// files implements upload.Processor and records its requests. Content that begins with "bad" cannot be processed.
type files struct {
	mu sync.Mutex
	// requests lists the requests in the order of their first calls.
	requests []string
	keys     map[string]bool
}

func (f *files) note(key, request string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = map[string]bool{}
	}
	if !f.keys[key] {
		f.requests = append(f.requests, request)
	}
	f.keys[key] = true
}

func (f *files) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.requests, ", ")
}

func (f *files) ProcessWarehouse(_ context.Context, r upload.WarehouseRequest) (upload.Dataset, error) {
	f.note(r.IdempotencyKey, r.File.ETag)
	if strings.HasPrefix(r.File.ETag, "bad") {
		return upload.Dataset{}, statechart.Permanent(errors.New("column 3 is missing"))
	}
	return upload.Dataset{Location: "stock " + r.File.ETag}, nil
}

func (f *files) ProcessSales(_ context.Context, r upload.SalesRequest) (upload.Dataset, error) {
	f.note(r.IdempotencyKey, r.File.ETag+" with "+r.Warehouse.Location)
	if strings.HasPrefix(r.File.ETag, "bad") {
		return upload.Dataset{}, statechart.Permanent(errors.New("column 3 is missing"))
	}
	return upload.Dataset{Location: "report " + r.File.ETag + ", " + r.Warehouse.Location}, nil
}

// withFiles returns options for a world that also hosts upload.
func withFiles(f *faults) (options, *files) {
	processor := &files{}
	return options{faults: f, more: []durable.Machine{durable.Host(
		upload.New(processor, upload.Config{Window: uploadWindow}), durable.MachineConfig{StartedBy: upload.StartedBy, Retention: upload.Retention},
	)}}, processor
}

// uploaded does the work of functions/objects for an upload: it builds S3's event in EventBridge's form, and sends
// the event of the machine to the queue. Each call has a new EventBridge event ID.
func (w *world) uploaded(kind, etag, sequencer string) {
	w.t.Helper()
	created := fmt.Sprintf(`{
		"version": "0", "id": "id-%[4]d", "detail-type": "Object Created", "source": "aws.s3", "account": "111122223333",
		"time": "2026-11-20T09:00:00Z", "region": "eu-central-1", "resources": ["arn:aws:s3:::%[1]s-uploads"],
		"detail": {"version": "0", "bucket": {"name": "%[1]s-uploads"},
			"object": {"key": "%[1]s_2026_11.csv", "size": 5, "etag": %[2]q, "sequencer": %[3]q},
			"request-id": "N4N7GDK58NMKJ12R", "requester": "123456789012", "source-ip-address": "1.2.3.4", "reason": "PutObject"}}`,
		kind, etag, sequencer, time.Now().UnixNano())
	id, event, err := upload.FromObjectCreated([]byte(created))
	if err != nil {
		w.t.Fatal(err)
	}
	hash := sha256.Sum256(event)
	queue := sqsqueue.New(sqs.NewFromConfig(w.by("objects", w.aws(w.cloud.HTTPClient(), true))), w.queueURL, "")
	if _, err := queue.Send(w.t.Context(), durable.Message{
		To: instances.ID{Machine: "upload", ID: id}, Body: event, DeduplicationID: hex.EncodeToString(hash[:]),
	}); err != nil {
		w.t.Fatal(err)
	}
}

// region waits until the month is in the given states of both regions. The arguments omit "open.warehouse." and
// "open.sales.".
func (w *world) region(warehouse, sales string) {
	w.t.Helper()
	want := []string{"open.warehouse." + warehouse, "open.sales." + sales}
	for range 600 {
		if r := w.record(month); slices.Equal(r.State, want) && owing(r) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("want %s in %v, got %v", month, want, w.record(month).State)
}

// TestWorkflowsOfBothFilesEndInManyWays plays the possible lives of a month with an execution that waits for each
// file.
func TestWorkflowsOfBothFilesEndInManyWays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play             func(w *world)
		warehouse, sales string
		requests         string
		end              string
	}{
		"the sales file first": {func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.region("awaited", "held")
			time.Sleep(5 * time.Hour)
			w.uploaded("warehouse", "w1", "10")
		}, `Processed "outcome":"processed"`, `Processed "outcome":"processed"`, "w1, s1 with stock w1", "completed"},
		"the warehouse file first": {func(w *world) {
			w.uploaded("warehouse", "w1", "10")
			w.region("processed", "awaited")
			time.Sleep(5 * time.Hour)
			w.uploaded("sales", "s1", "10")
		}, `Processed "location":"stock w1"`, `Processed "location":"report s1, stock w1"`, "w1, s1 with stock w1", "completed"},
		"duplicate events, within the queue's five minutes and later": {func(w *world) {
			for range 3 {
				w.uploaded("sales", "s1", "10")
				w.uploaded("warehouse", "w1", "10")
				time.Sleep(4 * time.Minute)
			}
		}, `Processed "outcome":"processed"`, `Processed "outcome":"processed"`, "w1, s1 with stock w1", "completed"},
		"uploaded again, held and processed": {func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.uploaded("sales", "s2", "20")
			w.uploaded("warehouse", "w1", "10")
			w.region("processed", "processed")
			w.uploaded("warehouse", "w2", "20")
			w.uploaded("warehouse", "w1", "10")
		}, `Processed "location":"stock w1"`, `Processed "location":"report s2, stock w1"`, "w1, s2 with stock w1, w2, s2 with stock w2", "completed"},
		"a bad sales file": {func(w *world) {
			w.uploaded("warehouse", "w1", "10")
			w.uploaded("sales", "bad", "10")
		}, `Processed "outcome":"processed"`, "Failed FAILED Upload.SalesFailed", "w1, bad with stock w1", "sales_failed"},
		"a bad warehouse file": {func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.uploaded("warehouse", "bad", "10")
		}, "Failed FAILED Upload.WarehouseFailed", "WarehouseFailed FAILED Upload.WarehouseFailed", "bad", "warehouse_failed"},
		"a bad warehouse file that is corrected": {func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.uploaded("warehouse", "bad", "10")
			w.region("failed", "held")
			w.uploaded("warehouse", "w2", "20")
		}, "Failed FAILED Upload.WarehouseFailed", `Processed "location":"report s1, stock w2"`, "bad, w2, s1 with stock w2", "completed"},
		"no sales file": {func(w *world) { w.uploaded("warehouse", "w1", "10") },
			`Processed "outcome":"processed"`, "Missing FAILED Upload.SalesMissing", "w1", "sales_missing"},
		"no warehouse file": {func(w *world) { w.uploaded("sales", "s1", "10") },
			"Missing FAILED Upload.WarehouseMissing", "WarehouseMissing FAILED Upload.WarehouseMissing", "", "warehouse_missing"},
		"no file at all": {func(*world) {},
			"Missing FAILED Upload.WarehouseMissing", "Missing FAILED Upload.SalesMissing", "", "nothing_uploaded"},
		"over before the workflows begin": {func(w *world) {
			w.uploaded("sales", "s1", "10")
			w.uploaded("warehouse", "w1", "10")
			w.region("processed", "processed")
		}, `Processed "outcome":"processed"`, `Processed "outcome":"processed"`, "w1, s1 with stock w1", "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, processor := withFiles(nil)
			inWorld(t, o, func(w *world) {
				late := strings.HasPrefix(name, "over before")
				if late {
					c.play(w)
				}
				// Two executions wait for the sales file under the same name, each with its own token.
				executions := map[string]string{
					w.startWorkflow("upload-warehouse.asl.json", "warehouse", month): c.warehouse,
					w.startWorkflow("upload-sales.asl.json", "sales-1", month):       c.sales,
					w.startWorkflow("upload-sales.asl.json", "sales-2", month):       c.sales,
				}
				time.Sleep(time.Second)
				if !late {
					c.play(w)
				}
				for execution, want := range executions {
					path, end := w.ended(execution)
					last, output, _ := strings.Cut(want, " ")
					if !strings.HasSuffix(path, " Outcome "+last) || !strings.Contains(end, output) {
						t.Errorf("%s: want %s, got %s and %s", execution, want, path, end)
					}
				}
				time.Sleep(uploadWindow)
				r := w.await(month, c.end)
				if len(r.Tokens) > 0 || r.Error != nil || w.deadLetters() != "0" {
					t.Errorf("want no tokens, no error and nothing parked, got %d, %v and %s", len(r.Tokens), r.Error, w.deadLetters())
				}
				if got := processor.all(); got != c.requests {
					t.Errorf("want the requests %q, got %q", c.requests, got)
				}
			})
		})
	}
}

// TestAFileAfterTheWindowIsIgnoredUntilTheMonthIsForgotten uploads a file for a month whose window has closed.
func TestAFileAfterTheWindowIsIgnoredUntilTheMonthIsForgotten(t *testing.T) {
	t.Parallel()
	o, processor := withFiles(nil)
	inWorld(t, o, func(w *world) {
		w.uploaded("warehouse", "w1", "10")
		w.uploaded("sales", "s1", "10")
		time.Sleep(uploadWindow)
		w.await(month, "completed")
		w.uploaded("warehouse", "w2", "20")
		w.uploaded("warehouse", "w2", "20")
		w.await(month, "completed", func(r instances.Record) bool { return r.Ignored == 1 })
		if got := processor.all(); got != "w1, s1 with stock w1" {
			t.Errorf("want one request for each file, got %q", got)
		}
		// An execution that starts now receives the result of the month.
		path, end := w.ended(w.startWorkflow("upload-sales.asl.json", "late", month))
		if path != "Sales Outcome Processed" || !strings.Contains(end, `"location":"report s1, stock w1"`) {
			t.Errorf("want the result of the sales file, got %s and %s", path, end)
		}
		time.Sleep(upload.Retention + 3*24*time.Hour)
		w.uploaded("warehouse", "w3", "30")
		w.region("processed", "awaited")
		if got := processor.all(); got != "w1, s1 with stock w1, w3" {
			t.Errorf("want a new window, got the requests %q", got)
		}
	})
}

// TestWorkflowsWaitLongerThanTheWindowButNotForever plays a month without uploads, with the window of production. It
// also starts workflows whose instance no consumer handles.
func TestWorkflowsWaitLongerThanTheWindowButNotForever(t *testing.T) {
	t.Parallel()
	machine := durable.Host(upload.New(&files{}, upload.Config{}), durable.MachineConfig{StartedBy: upload.StartedBy, Retention: upload.Retention})
	inWorld(t, options{more: []durable.Machine{machine}}, func(w *world) {
		executions := map[string]string{
			w.startWorkflow("upload-warehouse.asl.json", "warehouse", month): "Warehouse Outcome Missing",
			w.startWorkflow("upload-sales.asl.json", "sales", month):         "Sales Outcome Missing",
		}
		forgotten := *w
		forgotten.queueURL = w.deadLetterURL // no consumer reads this queue
		executions[forgotten.startWorkflow("upload-warehouse.asl.json", "forgotten", month)] = "Warehouse NobodyAnswered"
		executions[forgotten.startWorkflow("upload-sales.asl.json", "forgotten", month)] = "Sales NobodyAnswered"
		time.Sleep(14 * 24 * time.Hour)
		for execution, want := range executions {
			if path, end := w.ended(execution); path != want {
				t.Errorf("%s: want %s, got %s and %s", execution, want, path, end)
			}
		}
	})
}

// TestAMonthSurvivesAFaultAtEveryCall plays a month with an execution that waits for each file. The sales file is
// reported twice, before the warehouse file. The test repeats the month with each kind of fault at each AWS call of
// consumer and forwarder.
func TestAMonthSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	play := func(w *world, processor *files) string {
		warehouse := w.startWorkflow("upload-warehouse.asl.json", "warehouse", month)
		sales := w.startWorkflow("upload-sales.asl.json", "sales", month)
		w.uploaded("sales", "s1", "10")
		w.uploaded("sales", "s1", "10")
		time.Sleep(10 * time.Minute)
		w.uploaded("warehouse", "w1", "10")
		ends := ""
		for _, execution := range []string{warehouse, sales} {
			path, end := w.ended(execution)
			ends += fmt.Sprint(path, " ", strings.Contains(end, `"outcome":"processed"`), ", ")
		}
		time.Sleep(uploadWindow)
		r := w.await(month, "completed")
		return fmt.Sprint(ends, processor.all(), ", ", len(r.Tokens), owing(r), r.Error, r.Ignored)
	}
	const want = "Warehouse Outcome Processed true, Sales Outcome Processed true, w1, s1 with stock w1, 0 0 <nil> 0"
	quiet := &faults{}
	o, processor := withFiles(quiet)
	inWorld(t, o, func(w *world) {
		if got := play(w, processor); got != want {
			t.Errorf("without faults: want %s, got %s", want, got)
		}
	})
	calls := len(quiet.calls)
	if calls < 12 {
		t.Fatalf("only %d calls to AWS", calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, dieBefore, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				o, processor := withFiles(hit)
				inWorld(t, o, func(w *world) {
					if got := play(w, processor); got != want {
						t.Errorf("call %d, %s: want %s, got %s", at, hit.hit(), want, got)
					}
				})
			}
		})
	}
}
