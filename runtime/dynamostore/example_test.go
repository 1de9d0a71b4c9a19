package dynamostore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// Check all stored instances against the machines of a build, as settle check does.
func ExampleStore_List() {
	_ = func(ctx context.Context, store *dynamostore.Store, machines *durable.Machines) error {
		check := compat.New(machines)
		for record, err := range store.List(ctx, dynamostore.Filter{Consistent: true}) {
			var item *dynamostore.ItemError
			if err != nil && !errors.As(err, &item) {
				return err // the scan failed
			}
			check.Add(record, err)
		}
		if checked, broken := check.Counts(); broken > 0 {
			return fmt.Errorf("%d of %d instances break: %+v", broken, checked, check.Rows())
		}
		return nil
	}
}
