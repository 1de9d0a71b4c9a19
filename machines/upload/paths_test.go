package upload_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// constant is a stateless processor.
type constant struct{}

func (constant) ProcessWarehouse(_ context.Context, r upload.WarehouseRequest) (upload.Dataset, error) {
	return upload.Dataset{Location: "stock " + r.File.ETag}, nil
}

func (constant) ProcessSales(_ context.Context, r upload.SalesRequest) (upload.Dataset, error) {
	if r.Warehouse.Location == "" {
		return upload.Dataset{}, errors.New("no warehouse dataset")
	}
	return upload.Dataset{Location: "report " + r.File.ETag + ", " + r.Warehouse.Location}, nil
}

// paths returns a chart and the events that reach all of its states: two files of each kind, the second of them
// uploaded twice.
func paths() (*statechart.Chart[upload.Context], statecharttest.PathConfig[upload.Context]) {
	return upload.New(constant{}, upload.Config{}), statecharttest.PathConfig[upload.Context]{
		Events: []statecharttest.Event{
			{Type: "warehouse_uploaded", Payload: file("warehouse", "w1", "10"), Name: "warehouse w1"},
			{Type: "warehouse_uploaded", Payload: file("warehouse", "w2", "20"), Name: "warehouse w2"},
			{Type: "warehouse_uploaded", Payload: file("warehouse", "w2", "30"), Name: "warehouse w2 again"},
			{Type: "sales_uploaded", Payload: file("sales", "s1", "10"), Name: "sales s1"},
			{Type: "sales_uploaded", Payload: file("sales", "s2", "20"), Name: "sales s2"},
			{Type: "sales_uploaded", Payload: file("sales", "s2", "30"), Name: "sales s2 again"},
		},
	}
}

func TestEveryOutcomeCanBeReached(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	final, err := statecharttest.FinalPaths(chart, config)
	if err != nil {
		t.Error(err)
	}
	for _, path := range final {
		end := path.Snapshot()
		if end.Status != statechart.Done || end.HasTag(upload.Failed) == end.Matches("completed") {
			t.Errorf("expected a closed window, with the tag failed unless completed, got %v, %v after\n%s", end.State(), end.Tags(), path)
		}
	}
}

func TestOnEveryPathTheDatasetBelongsToTheNewestFiles(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	config.Invariant = func(s statechart.Snapshot[upload.Context]) error {
		w, x := s.Context.Warehouse, s.Context.Sales
		if stock := w.Dataset.Location; stock != "" && stock != "stock "+w.File.ETag {
			return fmt.Errorf("in %v: expected the dataset of %s, got %q", s.State(), w.File.ETag, stock)
		}
		if report := x.Dataset.Location; report != "" && report != "report "+x.File.ETag+", stock "+w.File.ETag {
			return fmt.Errorf("in %v: expected the dataset of %s and %s, got %q", s.State(), x.File.ETag, w.File.ETag, report)
		}
		for region, u := range map[string]upload.Upload{"open.warehouse": w, "open.sales": x} {
			if s.Matches(region+".processed") != (s.Matches("open") && u.Dataset.Location != "") ||
				s.Matches(region+".failed") != (s.Matches("open") && u.Error != "") {
				return fmt.Errorf("in %v: expected a dataset if processed, and an error if failed, got %+v", s.State(), u)
			}
		}
		if s.Status != statechart.Done {
			return nil
		}
		var output upload.Output
		if err := json.Unmarshal(s.Output, &output); err != nil {
			return err
		}
		if !slices.Equal(s.State(), []string{output.Outcome}) || (output.Outcome == "completed") != (x.Dataset.Location != "") {
			return fmt.Errorf("in %v with %+v: expected a matching output, got %+v", s.State(), s.Context, output)
		}
		return nil
	}
	statecharttest.RunPaths(t, chart, config, nil)
}
