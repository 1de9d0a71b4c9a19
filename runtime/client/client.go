// Package client sends events to instances, and reads instances, from a Go program with access to the queue and the
// table:
//
//	queue := sqsqueue.New(sqs.NewFromConfig(config), queueURL, "")
//	store := dynamostore.New(dynamodb.NewFromConfig(config), "settle")
//	c := client.New(machines, queue, store)
//
//	sent, err := c.Send(ctx, "order/1", order.Place{Item: "book"}, client.Until(client.Settled))
//	placed, err := client.ContextOf[order.Context](sent.After)
//
// Pass the machines that the consumers host. The client validates events against them. It starts no services, so the
// machines may have nil services.
//
// # Permissions
//
// Each call needs only these permissions on the FIFO queue and the table. To send to a machine with a BacklogAgeMax,
// add dynamodb:GetItem. If you encrypt the queue or the table with your own KMS keys, add the permissions for these
// keys.
//
//	Send                    sqs:SendMessage
//	Send with ID            sqs:SendMessage, dynamodb:UpdateItem on the keys idempotency/*
//	Send with Until         sqs:SendMessage, sqs:GetQueueAttributes, dynamodb:GetItem
//	SendByAlias             sqs:SendMessage, dynamodb:GetItem
//	Get, GetByAlias, Wait   dynamodb:GetItem
//	List                    dynamodb:Query on the index, dynamodb:GetItem
//	List without an index   dynamodb:Query on the index, dynamodb:Scan
//	List with Consistent    dynamodb:Scan
//
// # Errors
//
// Most errors wrap an error of this package or of the context. A program cannot recover from the others. After
// ErrUnavailable, call the method again with the same arguments. The event takes effect once, unless you use Distinct.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/producer"
)

// Queue is the FIFO queue. *sqsqueue.Queue implements it.
type Queue = producer.Queue

// Store is the table. *dynamostore.Store implements it.
type Store interface {
	producer.Store
	// Find returns the instance that has the alias or had it last. It fails with dynamostore.ErrNoAlias.
	Find(ctx context.Context, alias string) (instances.ID, error)
	// ListIndexed yields the instances that the filter selects. It fails with dynamostore.ErrNoIndex.
	ListIndexed(ctx context.Context, filter dynamostore.Filter) iter.Seq2[instances.Record, error]
	// List yields the instances that the filter selects. It reads the whole table.
	List(ctx context.Context, filter dynamostore.Filter) iter.Seq2[instances.Record, error]
}

// Client sends events and reads instances. It is safe for concurrent use.
type Client struct {
	machines *durable.Machines
	producer *producer.Producer
	store    Store
}

// New returns a client.
func New(machines *durable.Machines, queue Queue, store Store) *Client {
	return &Client{machines: machines, producer: producer.New(machines, queue, store, time.Now), store: store}
}

// Condition is a condition to wait for. Its value is Settled, Done or a tag of the machine.
type Condition = producer.Condition

const (
	// Settled holds for an instance that waits for an event or a timer, or has ended.
	Settled = producer.Settled
	// Done holds for an instance that has reached a final state.
	Done = producer.Done
)

// Instance is a stored instance.
type Instance struct {
	// The field Context of this view is JSON. ContextOf decodes it.
	instanceview.Instance
	// unreadable is the error if the machines cannot read the instance, or nil.
	unreadable error
}

// ContextOf returns the context of an instance. C must be the context type of the instance's machine. If a newer
// version of the machine is hosted, ContextOf returns the migrated context. It fails with ErrUnreadable if the machines
// cannot read the instance.
func ContextOf[C any](instance Instance) (C, error) {
	var c C
	if instance.unreadable != nil {
		return c, instance.unreadable
	}
	if err := json.Unmarshal(instance.Context, &c); err != nil {
		return c, fmt.Errorf("%w: decoding the context of %s to %T: %w", ErrUnreadable, instance.Name, c, err)
	}
	return c, nil
}

// instanceOf returns the view of a record.
func (c *Client) instanceOf(record instances.Record) (Instance, error) {
	view, err := instanceview.Of(c.machines, record)
	if err != nil {
		return Instance{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	shown := Instance{Instance: view}
	_, restored, err := c.machines.Restore(record)
	var snapshot json.RawMessage
	if err == nil {
		snapshot, err = restored.Snapshot()
	}
	if err != nil {
		shown.unreadable = fmt.Errorf("%w: %s: %w", ErrUnreadable, record.Instance, err)
		return shown, nil
	}
	var migrated struct {
		Context json.RawMessage `json:"context"`
	}
	if err := json.Unmarshal(snapshot, &migrated); err != nil {
		return Instance{}, fmt.Errorf("%w: %s: %w", ErrUnreadable, record.Instance, err)
	}
	shown.Context = migrated.Context
	return shown, nil
}

// Get returns the last stored state of an instance, such as order/1. It fails with ErrNotFound.
func (c *Client) Get(ctx context.Context, id string) (Instance, error) {
	name, err := instances.ParseID(id)
	if err != nil {
		return Instance{}, classified(err)
	}
	return c.get(ctx, name)
}

// GetByAlias returns the instance that has the alias, or had it last. It fails with ErrUnknownAlias or ErrNotFound.
func (c *Client) GetByAlias(ctx context.Context, alias string) (Instance, error) {
	name, err := c.store.Find(ctx, alias)
	if err != nil {
		return Instance{}, classified(err)
	}
	return c.get(ctx, name)
}

func (c *Client) get(ctx context.Context, name instances.ID) (Instance, error) {
	record, err := c.store.Load(ctx, name)
	switch {
	case err != nil:
		return Instance{}, classified(err)
	case record.Revision == 0:
		return Instance{}, fmt.Errorf("%w: %s has no record yet; its first event creates it", ErrNotFound, name)
	}
	return c.instanceOf(record)
}

// List yields the instances that the filter selects. If the table has an index and filter.Consistent is not set, List
// yields the instances in the order of the index. Otherwise it reads the whole table, and the order is undefined. An
// instance that cannot be read yields an error that wraps ErrUnreadable, and the list continues. Any other error ends
// the list.
func (c *Client) List(ctx context.Context, filter dynamostore.Filter) iter.Seq2[Instance, error] {
	return func(yield func(Instance, error) bool) {
		for record, err := range c.records(ctx, filter) {
			var item *dynamostore.ItemError
			var instance Instance
			switch {
			case errors.As(err, &item):
				err = fmt.Errorf("%w: %w", ErrUnreadable, err)
			case err != nil:
				err = classified(err)
			default:
				instance, err = c.instanceOf(record)
			}
			if !yield(instance, err) || err != nil && !errors.Is(err, ErrUnreadable) {
				return
			}
		}
	}
}

// records yields the records of a listing, from the index or from the table.
func (c *Client) records(ctx context.Context, filter dynamostore.Filter) iter.Seq2[instances.Record, error] {
	if filter.Consistent {
		return c.store.List(ctx, filter)
	}
	return func(yield func(instances.Record, error) bool) {
		for record, err := range c.store.ListIndexed(ctx, filter) {
			if errors.Is(err, dynamostore.ErrNoIndex) {
				c.store.List(ctx, filter)(yield)
				return
			}
			if !yield(record, err) {
				return
			}
		}
	}
}
