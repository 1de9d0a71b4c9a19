package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// operator changes instances. It is safe for concurrent use.
type operator struct {
	session  *session
	table    tableFlags
	machines *durable.Machines
	store    *dynamostore.Store
	// queue is nil in a dry run.
	queue *sqsqueue.Queue
	// `by` is the identity of the operator. Only newOperator sets it.
	by string

	settings aws.Config
	noting   sync.Mutex
}

// note prints a line on standard error.
func (o *operator) note(format string, args ...any) {
	o.noting.Lock()
	defer o.noting.Unlock()
	o.session.note(format, args...)
}

// newOperator creates the clients and looks up the operator's identity for the history.
func newOperator(ctx context.Context, s *session, table tableFlags, queue string, dryRun bool) (*operator, error) {
	o, err := connect(ctx, s, table, queue, dryRun)
	if err == nil {
		o.by, err = identity(ctx, s, table, o.settings)
	}
	return o, err
}

// identity returns the user's identity for the history of instances.
func identity(ctx context.Context, s *session, table tableFlags, settings aws.Config) (string, error) {
	if table.Local {
		return s.localUser(), nil
	}
	output, err := sts.NewFromConfig(settings).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("finding out who you are, for the history: %w", err)
	}
	return aws.ToString(output.Arn), nil
}

// localUser returns the identity of the user for the history of dev's instances.
func (s *session) localUser() string { return "local user " + s.User }

// connect creates the clients. It writes nothing.
func connect(ctx context.Context, s *session, table tableFlags, queue string, dryRun bool) (*operator, error) {
	o := &operator{session: s, table: table}
	var err error
	if o.machines, err = s.machines(); err != nil {
		return o, err
	}
	if o.settings, err = table.load(ctx, s); err != nil {
		return o, err
	}
	// The indexed store keeps the index attributes of committed items up to date.
	o.store = dynamostore.NewIndexed(meteredClient{dynamodb.NewFromConfig(o.settings), &s.read}, table.Table)
	if dryRun {
		return o, nil
	}
	client := sqs.NewFromConfig(o.settings)
	url, err := sqsqueue.ResolveURL(ctx, client, queue)
	o.queue = sqsqueue.New(client, url, "")
	return o, err
}

// rateMax is the largest --rate. No process reaches it.
const rateMax = 1_000_000

// checkRate checks --rate.
func checkRate(rate int) error {
	if rate < 1 || rate > rateMax {
		return fmt.Errorf("%w: --rate: expected 1 to %d, got %d", errUsage, rateMax, rate)
	}
	return nil
}

// workersMax is how many instances are processed at a time.
const workersMax = 8

// inParallel calls `do` with each item, until one call or the sequence fails. It returns the first error.
func inParallel[T any](outer context.Context, items iter.Seq2[T, error], do func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	work := make(chan T)
	var workers sync.WaitGroup
	for range workersMax {
		workers.Go(func() {
			for item := range work {
				if err := do(ctx, item); err != nil {
					stop(err)
				}
			}
		})
	}
	for item, err := range items {
		if err != nil {
			stop(err)
			break
		}
		select {
		case work <- item:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// readable yields the records. It calls `fail` with each item that cannot be read, and continues.
func readable(records iter.Seq2[instances.Record, error], fail func(*dynamostore.ItemError)) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		for record, err := range records {
			var item *dynamostore.ItemError
			if errors.As(err, &item) {
				fail(item)
			} else if !yield(record, err) {
				return
			}
		}
	}
}

// change computes the change, commits it, and wakes the instance. In a dry run, change writes and sends nothing. If
// `revision` is not 0, it changes only this revision of the instance.
func (o *operator) change(ctx context.Context, id instances.ID, op instances.Operation, patches []any, revision int64) (shown view.Operation, err error) {
	change, err := o.changer().Change(ctx, id, revision, func(before instances.Record) (instances.Operation, error) {
		if before.Revision == 0 {
			return op, o.table.missing(o.machines, id)
		}
		context, err := patched(o.machines, before, patches)
		if op.Context = context; err != nil || context == nil {
			return op, err
		}
		// Try the values alone. If they are valid, the change can fail only at the entry of the new state.
		values := op
		values.State = ""
		if _, _, err := durable.Operate(o.machines, before, values); err != nil {
			return op, refusal{err}
		}
		return op, nil
	})
	if errors.Is(err, operations.ErrNotWoken) {
		err = fmt.Errorf("%w: run %s", err, o.session.hint("resume", id.String()))
	}
	if change.After.Revision > 0 {
		var unreadable error
		if shown, unreadable = view.OperationOf(op, change.Before, change.After, change.Steps); err == nil {
			err = unreadable
		}
	}
	shown.DryRun, shown.MessageID = o.queue == nil, change.MessageID
	return shown, err
}

// changer returns an operations.Operator with the machines and clients of o.
func (o *operator) changer() *operations.Operator {
	changer := &operations.Operator{Machines: o.machines, Store: o.store, NewID: rand.Text}
	if o.queue != nil {
		changer.Queue = o.queue
	}
	return changer
}

// isOfRun reports whether the operation's bulk run wrote the history entry. The reason contains the run's stamp. The
// operator's name may differ, because an assumed role has a new session name in each process.
func isOfRun(t instances.Transition, op instances.Operation) bool {
	return t.Reason == op.Reason && t.Event == statechart.ReservedPrefix+string(op.Kind)
}

// patched returns the migrated context of the record with the merge patches applied, or nil if there are no patches.
func patched(machines *durable.Machines, record instances.Record, patches []any) (json.RawMessage, error) {
	if len(patches) == 0 {
		return nil, nil
	}
	_, instance, err := machines.Restore(record)
	if err != nil {
		return nil, err
	}
	migrated, err := instance.Snapshot()
	if err != nil {
		return nil, err
	}
	var snapshot struct{ Context any }
	if err := exactjson.Unmarshal(migrated, &snapshot); err != nil {
		return nil, err
	}
	for _, patch := range patches {
		snapshot.Context = merge(snapshot.Context, patch)
	}
	return json.Marshal(snapshot.Context)
}

// wake sends a message so that a consumer settles the instance and performs its effects, if anything is left to do.
func (o *operator) wake(ctx context.Context, record instances.Record) (messageID string, err error) {
	return o.changer().Wake(ctx, record)
}
