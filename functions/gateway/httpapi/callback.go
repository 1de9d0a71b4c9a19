package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// Callback is how a third party calls back. All fields are required.
type Callback struct {
	// Machine is the ID of the machine whose instances wait.
	Machine string
	// Verify returns until when callbacks are taken at an address that was made for the instance,
	// "machine/id". It reports false if no such address was made. It takes no longer for a key that is
	// nearly right.
	Verify func(instance, until, key string) (deadline time.Time, ok bool)
	// Read makes an event of the body, and tells by which alias the instance knows what it is about.
	Read func(body []byte) (alias string, event json.RawMessage, err error)
}

func (c Callback) validate(machines *durable.Machines) error {
	if c.Verify == nil || c.Read == nil {
		return errors.New("expected both Verify and Read")
	}
	_, err := machines.Lookup(c.Machine)
	return err
}

// postCallback takes the callback of a third party: the first for its alias, while the address is good.
// All others learn why not; of any number that come at the same time, one is the first.
func (a *api) postCallback(r *http.Request) (reply, error) {
	callback, to, err := a.addressee(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := mediaType(r.Header, "application/json"); err != nil {
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
	// What the machine would refuse must not use up the one callback.
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
		return reply{}, fmt.Errorf("%w: %s has ended without it", errExpired, to)
	case redemption.Ended:
		return reply{}, fmt.Errorf("%w: %s has ended with it", errProcessed, to)
	}
	// Whoever was first may have failed before the queue had its event. It is sent again, under the
	// same ID, so that this answer is true.
	again, err := a.prepare(to, redemption.Event, callbackEventID(redemption.By))
	if err != nil {
		return reply{}, err
	}
	if _, err := a.enqueue(r.Context(), again); err != nil {
		return reply{}, err
	}
	return reply{}, fmt.Errorf("%w: %s has it queued", errProcessed, to)
}

// callbackEventID returns the $id of the event of the callback that redeemed an alias. It does not have the alias, because an
// instance may release an alias and claim it again.
func callbackEventID(by string) string { return "callback/" + by }

// addressee reads and checks the address of a callback.
func (a *api) addressee(r *http.Request) (Callback, durable.InstanceID, error) {
	callback, known := a.config.Callbacks[r.PathValue("provider")]
	if !known {
		return Callback{}, durable.InstanceID{}, fmt.Errorf("%w: expected an address that was made here", errNoCallback)
	}
	to, err := durable.ParseInstanceID(callback.Machine + "/" + r.PathValue("id"))
	if err != nil {
		return Callback{}, durable.InstanceID{}, err
	}
	deadline, ok := callback.Verify(to.String(), r.PathValue("until"), r.PathValue("key"))
	if !ok {
		return Callback{}, durable.InstanceID{}, fmt.Errorf("%w: expected an address that was made here", errNoCallback)
	}
	if !a.config.Now().Before(deadline) {
		return Callback{}, durable.InstanceID{}, fmt.Errorf("%w: the address was good until %s", errExpired, deadline.UTC().Format(time.RFC3339))
	}
	return callback, to, nil
}

// unknownJob returns why an instance does not have the alias of a callback: it does not wait under it, or
// it is about to, because the third party is quicker than the answer to the call that started its job.
func (a *api) unknownJob(ctx context.Context, to durable.InstanceID, redemption durable.Redemption) error {
	record, err := a.store.Load(ctx, to)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if redemption.Instance == (durable.InstanceID{}) && a.isUnderWay(record) {
		return fmt.Errorf("%w: %s", errEarly, to)
	}
	return fmt.Errorf("%w: %s does not wait for this job", errNoCallback, to)
}

// isUnderWay reports whether the loop has yet to finish a turn of the instance. Before its first turn is
// over, nothing is stored.
func (a *api) isUnderWay(record durable.Record) bool {
	if record.Revision == 0 || len(record.Outbox) > 0 {
		return true
	}
	if record.Status != statechart.Active {
		return false
	}
	_, instance, err := a.machines.Restore(record)
	return err == nil && !instance.Settled()
}
