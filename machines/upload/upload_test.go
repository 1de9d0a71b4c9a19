package upload_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// processor is a fake that records its requests. A dataset's location names its source files. A file with the content
// "bad" cannot be processed.
type processor struct {
	warehouse, sales *statecharttest.Outcomes
	requests         []string
	keys             []string
}

func (p *processor) ProcessWarehouse(ctx context.Context, r upload.WarehouseRequest) (upload.Dataset, error) {
	p.note("warehouse "+r.File.ETag, r.IdempotencyKey)
	if isBad(r.File.ETag) {
		return upload.Dataset{}, statechart.Permanent(errBad)
	}
	return upload.Dataset{Location: "stock " + r.File.ETag}, p.warehouse.Next(ctx)
}

func (p *processor) ProcessSales(ctx context.Context, r upload.SalesRequest) (upload.Dataset, error) {
	p.note("sales "+r.File.ETag+" with "+r.Warehouse.Location, r.IdempotencyKey)
	if isBad(r.File.ETag) {
		return upload.Dataset{}, statechart.Permanent(errBad)
	}
	return upload.Dataset{Location: "report " + r.File.ETag + ", " + r.Warehouse.Location}, p.sales.Next(ctx)
}

func (p *processor) note(request, key string) {
	p.requests, p.keys = append(p.requests, request), append(p.keys, key)
}

var errBad = errors.New("column 3 is missing")

func isBad(content string) bool { return content == "bad" }

func newProcessor() *processor {
	return &processor{warehouse: &statecharttest.Outcomes{}, sales: &statecharttest.Outcomes{}}
}

// file is an upload of the tests' month. The ETag stands for the content.
func file(kind, etag, sequencer string) upload.File {
	return upload.File{
		Bucket: kind + "-bucket", Key: kind + "_2026_11.csv", ETag: etag, Sequencer: sequencer, Size: 42,
		CreatedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[upload.Context] {
		return upload.New(&processor{warehouse: setup.Outcomes("warehouse"), sales: setup.Outcomes("sales")}, upload.Config{})
	}).Require(t)
}

func TestEveryRequestHasItsOwnIdempotencyKeyAndItsAttemptsShareIt(t *testing.T) {
	t.Parallel()
	fake := newProcessor()
	var err error
	if fake.sales, err = statecharttest.NewOutcomes("fail", "ok"); err != nil {
		t.Fatal(err)
	}
	p := statecharttest.Play(t, upload.New(fake, upload.Config{}), statecharttest.Config{Instance: "upload/2026_11"})
	p.Send("warehouse_uploaded", file("warehouse", "w1", "10"))
	p.Send("sales_uploaded", file("sales", "s1", "10"))
	p.Send("warehouse_uploaded", file("warehouse", "w2", "20"))
	var got []string
	for i, request := range fake.requests {
		got = append(got, request+" under "+fake.keys[i])
	}
	want := []string{
		"warehouse w1 under upload/2026_11/2.0",
		"sales s1 with stock w1 under upload/2026_11/4.0",
		"sales s1 with stock w1 under upload/2026_11/4.0",
		"warehouse w2 under upload/2026_11/6.0",
		"sales s1 with stock w2 under upload/2026_11/7.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestTheProcessorGetsTheLastUploadedVersion(t *testing.T) {
	t.Parallel()
	known := file("warehouse", "w1", "10")
	known.VersionID = "v1"
	again := file("warehouse", "w1", "20")
	again.VersionID = "v2"
	p := statecharttest.Play(t, upload.New(newProcessor(), upload.Config{}), statecharttest.Config{})
	p.Send("warehouse_uploaded", known)
	p.Send("warehouse_uploaded", again)
	want := upload.Upload{File: again, Changes: 1, Dataset: upload.Dataset{Location: "stock w1"}}
	if diff := cmp.Diff(want, p.Snapshot().Context.Warehouse); diff != "" {
		t.Errorf("warehouse (-want +got):\n%s", diff)
	}
}

func TestConfigTunesTheChart(t *testing.T) {
	t.Parallel()
	fake := newProcessor()
	var err error
	if fake.warehouse, err = statecharttest.NewOutcomes("hang", "hang"); err != nil {
		t.Fatal(err)
	}
	p := statecharttest.Play(t, upload.New(fake, upload.Config{
		Window: time.Hour, ProcessTimeout: 5 * time.Second, ProcessRetry: statechart.RetryPolicy{Attempts: 2, Interval: time.Second},
	}), statecharttest.Config{})
	began := p.Now()
	p.Send("warehouse_uploaded", file("warehouse", "w1", "10"))
	if got, took := p.State(), p.Now().Sub(began); got != "open.warehouse.failed, open.sales.awaited" || took != 11*time.Second {
		t.Errorf("expected the file to have failed after two attempts of 5s, 1s apart, got %s after %v", got, took)
	}
	p.Advance(time.Hour - 12*time.Second)
	before := p.State()
	p.Advance(time.Second)
	if got := p.State(); before != "open.warehouse.failed, open.sales.awaited" || got != "warehouse_failed" {
		t.Errorf("expected the window to close after an hour, got %s, then %s", before, got)
	}
}

func TestInvalidConfigPanicsBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]upload.Config{
		"upload.Config: expected a positive Window, got -1s":         {Window: -time.Second},
		"upload.Config: expected a positive ProcessTimeout, got -1s": {ProcessTimeout: -time.Second},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("expected the panic %q, got %q", want, got)
				}
			}()
			upload.New(newProcessor(), config)
		}()
	}
}

func TestEveryDeclaredEventMayStartAnInstance(t *testing.T) {
	t.Parallel()
	want := append(upload.New(newProcessor(), upload.Config{}).Events(), "settle.wait") // a workflow may also be first
	if diff := cmp.Diff(want, upload.StartedBy); diff != "" {
		t.Errorf("StartedBy (-events of the chart +got):\n%s", diff)
	}
}

func TestOutputHasBothFiles(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, upload.New(newProcessor(), upload.Config{Window: time.Hour}), statecharttest.Config{})
	p.Send("sales_uploaded", file("sales", "s1", "10"))
	p.Send("warehouse_uploaded", file("warehouse", "w1", "10"))
	p.Advance(time.Hour)
	var got upload.Output
	if err := json.Unmarshal(p.Snapshot().Output, &got); err != nil {
		t.Fatal(err)
	}
	want := upload.Output{
		Outcome:   "completed",
		Warehouse: upload.Upload{File: file("warehouse", "w1", "10"), Changes: 1, Dataset: upload.Dataset{Location: "stock w1"}},
		Sales:     upload.Upload{File: file("sales", "s1", "10"), Changes: 1, Dataset: upload.Dataset{Location: "report s1, stock w1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "write chart.svg")

func TestTheDrawingShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "chart.svg", chartsvg.Draw(upload.New(newProcessor(), upload.Config{}).Outline(), chartsvg.Options{}), *update)
}
