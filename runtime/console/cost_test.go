package console_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// meter is a client that counts read units.
type meter struct {
	*dynamodb.Client
	halves atomic.Int64
}

func (m *meter) GetItem(ctx context.Context, input *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := m.Client.GetItem(ctx, input, options...)
	if err == nil {
		m.halves.Add(int64(2 * aws.ToFloat64(output.ConsumedCapacity.CapacityUnits)))
	}
	return output, err
}

func (m *meter) Query(ctx context.Context, input *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := m.Client.Query(ctx, input, options...)
	if err == nil {
		m.halves.Add(int64(2 * aws.ToFloat64(output.ConsumedCapacity.CapacityUnits)))
	}
	return output, err
}

// TestThePageTellsTheReadUnits compares the read units in docs/console.md with those that each page consumes.
func TestThePageTellsTheReadUnits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		record, err := w.store.Load(t.Context(), instances.ID{Machine: "order", ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		m := &meter{Client: w.tables}
		w.config.Store = dynamostore.NewIndexed(m, "settle")
		if w.handler, err = console.New(w.config); err != nil {
			t.Fatal(err)
		}
		row := func(label, path string) {
			m.halves.Store(0)
			w.page(path, 0)
			units := float64(m.halves.Load()) / 2
			day := units * float64(24*time.Hour/(5*time.Second)) * 0.125e-6
			if want := fmt.Sprintf("| %s | %.4g | $%.2g |", label, units, day); !strings.Contains(string(text), want) {
				t.Errorf("docs/console.md: expected the row %s", want)
			}
		}
		row("an instance of up to 4 KB", "instances/order/1")
		row("the list of machines, for each machine", "")
		row("a machine with one instance", "machines/order")
		for i := range 1000 {
			record.Instance.ID, record.Revision = fmt.Sprintf("copy-%05d", i), 1
			if err := w.store.Commit(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		row("a machine with 1,000 instances", "machines/order")
		row("the same, with a filter that selects none", "machines/order?only=failed")
		row("the same, with a filter that selects none", "machines/order?prefix=x")
	})
}
