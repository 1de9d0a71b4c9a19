package demo_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/upload"
)

func TestFilesLogsAndReturnsTheSameForOneKey(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	files := demo.Files{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for name, process := range map[string]func(key string) (upload.Dataset, error){
		"warehouse": func(key string) (upload.Dataset, error) {
			return files.ProcessWarehouse(t.Context(), upload.WarehouseRequest{IdempotencyKey: key})
		},
		"sales": func(key string) (upload.Dataset, error) {
			return files.ProcessSales(t.Context(), upload.SalesRequest{IdempotencyKey: key, Warehouse: upload.Dataset{Location: "there"}})
		},
	} {
		log.Reset()
		first, err := process("key-1")
		if err != nil {
			t.Fatal(err)
		}
		again, _ := process("key-1")
		if other, _ := process("key-2"); again != first || other == first || !strings.HasPrefix(first.Location, "demo://"+name+"/") {
			t.Errorf("%s: got %v, then %v for the same key and %v for another", name, first, again, other)
		}
		if n := strings.Count(log.String(), "would be"); n != 3 || !strings.Contains(log.String(), first.Location) {
			t.Errorf("%s: logged\n%s\nwant three calls, with %s", name, &log, first.Location)
		}
	}
}
