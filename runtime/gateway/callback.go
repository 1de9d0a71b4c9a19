package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// Callback describes a third party that calls back. All fields are required.
type Callback struct {
	// Machine is the ID of the machine whose instances wait for a callback.
	Machine string
	// Verify checks the key of a callback's address. `instance` has the form "machine/id". If the address was made for
	// this instance, Verify returns the time at which the address expires. For any other address, ok is false. The
	// comparison of keys must take constant time.
	Verify func(instance, until, key string) (deadline time.Time, ok bool)
	// Read converts the body to an event. It also returns the alias of the instance that receives the event.
	Read func(body []byte) (alias string, event json.RawMessage, err error)
}

func (c Callback) validate(machines *durable.Machines) error {
	if c.Verify == nil || c.Read == nil {
		return errors.New("expected both Verify and Read")
	}
	_, err := machines.Lookup(c.Machine)
	return err
}

// postCallback accepts the first callback for an alias before the address expires. All other callbacks get an error
// with the reason. If several callbacks arrive at once, exactly one of them is accepted.
func (a *api) postCallback(r *http.Request) (reply, error) {
	callback, to, err := a.addressee(r)
	if err != nil {
		return reply{}, err
	}
	if err := checkJSON(r.Header); err != nil {
		return reply{}, err
	}
	body, err := readBody(r, a.config.EventBytesMax)
	if err != nil {
		return reply{}, err
	}
	alias, event, err := callback.Read(body)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errCallback, err)
	}
	if len(event) > CallbackBytesMax {
		return reply{}, fmt.Errorf("%w: expected the event of a callback to have at most %d bytes, got %d: store the data elsewhere and send a reference", producer.ErrTooLarge, CallbackBytesMax, len(event))
	}
	// Before redeeming the alias, reject an event that the machine would reject.
	by := rand.Text()
	first, err := a.prepare(to, event, callbackEventID(by))
	if err != nil {
		return reply{}, err
	}
	redemption, err := a.store.Redeem(r.Context(), alias, to, event, by)
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", errStore, err)
	case redemption.First:
		return a.enqueue(r.Context(), first)
	case redemption.Instance != to:
		return reply{}, a.unknownJob(r.Context(), to, redemption)
	case redemption.Event == nil:
		return reply{}, fmt.Errorf("%w: %s stopped waiting without this callback", errExpired, to)
	case redemption.Released:
		return reply{}, fmt.Errorf("%w: %s received it and stopped waiting", errProcessed, to)
	}
	// The first request may have failed before its event was queued. Send the event again under the same ID, because
	// the answer below says that the event is queued.
	again, err := a.prepare(to, redemption.Event, callbackEventID(redemption.By))
	if err != nil {
		return reply{}, err
	}
	if _, err := a.enqueue(r.Context(), again); err != nil {
		return reply{}, err
	}
	return reply{}, fmt.Errorf("%w: queued for %s", errProcessed, to)
}

// callbackEventID returns the $id of the event for the callback that redeemed an alias. The ID does not contain the
// alias, because an instance may release an alias and claim it again.
func callbackEventID(by string) string { return "callback/" + by }

// addressee parses and verifies the address of a callback.
func (a *api) addressee(r *http.Request) (Callback, instances.ID, error) {
	callback, known := a.config.Callbacks[r.PathValue("provider")]
	if !known {
		return Callback{}, instances.ID{}, fmt.Errorf("%w: unknown address", errNoCallback)
	}
	to, err := instances.ParseID(callback.Machine + "/" + r.PathValue("id"))
	if err != nil {
		return Callback{}, instances.ID{}, err
	}
	deadline, ok := callback.Verify(to.String(), r.PathValue("until"), r.PathValue("key"))
	if !ok {
		return Callback{}, instances.ID{}, fmt.Errorf("%w: unknown address", errNoCallback)
	}
	if !a.config.Now().Before(deadline) {
		return Callback{}, instances.ID{}, fmt.Errorf("%w: the address expired at %s", errExpired, deadline.UTC().Format(time.RFC3339))
	}
	return callback, to, nil
}

// unknownJob returns the error for a callback whose alias the instance does not have. Either the instance does not wait
// for this job, or it has not claimed the alias yet. A callback may arrive before the call that started its job
// returns.
func (a *api) unknownJob(ctx context.Context, to instances.ID, redemption dynamostore.Redemption) error {
	record, err := a.store.Load(ctx, to)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if redemption.Instance == (instances.ID{}) && a.isUnderWay(record) {
		return fmt.Errorf("%w: %s", errEarly, to)
	}
	return fmt.Errorf("%w: %s is not waiting for this job", errNoCallback, to)
}

// isUnderWay reports whether the loop is still working on the instance. Revision 0 may mean that the instance is in its
// first turn, because nothing is stored before that turn ends.
func (a *api) isUnderWay(record instances.Record) bool {
	if record.Revision == 0 || record.Owes() {
		return true
	}
	if record.Status != statechart.Active {
		return false
	}
	_, instance, err := a.machines.Restore(record)
	return err == nil && !instance.Settled()
}
