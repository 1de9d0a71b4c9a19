package durable

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// ErrAliasTaken is returned by Store.Claim when another instance has the alias.
var ErrAliasTaken = errors.New("the alias belongs to another instance")

// AliasMachine is an ID that no machine may have: stores keep aliases under it.
const AliasMachine = "alias"

// AliasTaken is the type of the event that a chart gets, if it declares it, when an alias that it
// claimed belongs to another instance: {"alias"}.
const AliasTaken = "alias.taken"

// Redemption is what became of a callback that came under an alias: an alias is redeemed by one.
type Redemption struct {
	// Instance has the alias, or had it last; zero if no instance does.
	Instance InstanceID
	// First says that the alias is redeemed by this callback, and was not before.
	First bool
	// Event is the event that the alias was redeemed with, whenever that was; nil if it was not.
	Event json.RawMessage
	// Ended says that the instance has ended, and that the alias may be claimed by another.
	Ended bool
}

// aliasTaken is the body of aliasTakenEvent and of AliasTaken.
type aliasTaken struct {
	Type string `json:"type"`
	// ID shows a duplicate that comes after SQS has forgotten the first: the outbox may be stuck for longer.
	ID          string `json:"$id,omitempty"`
	Alias       string `json:"alias"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// claim claims an alias. If another instance has it, a message has the loop look again: see applyAliasTaken.
func (t *turn) claim(ctx context.Context, effect statechart.Effect) error {
	if !slices.Contains(t.stored.Record.Aliases, effect.Name) {
		return nil // The same commit has released it: another turn may have performed the release already.
	}
	err := t.claimNow(ctx, effect.Name)
	if !errors.Is(err, ErrAliasTaken) {
		return err
	}
	id := t.derivedID(effect.ID)
	return t.loop.send(ctx, t.draft.Record.Instance, aliasTaken{Type: aliasTakenEvent, ID: id, Alias: effect.Name, Incarnation: t.incarnation()}, id)
}

// claimNow claims an alias for the instance as it is stored: a turn that was frozen until the instance has moved on claims nothing.
func (t *turn) claimNow(ctx context.Context, alias string) error {
	r := &t.stored.Record
	return t.loop.ports.Store.Claim(ctx, alias, r.Instance, r.CreatedAt, r.Revision)
}

// applyAliasTaken reports to the chart, if it declares the event, that an alias belongs to another instance. The claim is tried
// once more: since the message was sent, the instance may have released the alias, or claimed it with success.
func (t *turn) applyAliasTaken(ctx context.Context, form aliasTaken) error {
	if !slices.Contains(t.draft.Record.Aliases, form.Alias) || !t.exists() {
		return nil
	}
	err := t.claimNow(ctx, form.Alias)
	if !errors.Is(err, ErrAliasTaken) {
		return err
	}
	level := slog.LevelError // Nobody else is notified.
	if t.declares(AliasTaken) {
		level = slog.LevelInfo
	}
	t.loop.config.Logger.Log(ctx, level, "alias is taken", "instance", t.draft.Record.Instance.String(), "alias", form.Alias, "error", err)
	t.forgetAlias(form.Alias)
	t.draft.Record.Outbox = without(t.draft.Record.Outbox, func(e statechart.Effect) bool { // The answer holds for these claims too.
		return e.Kind == statechart.ClaimAlias && e.Name == form.Alias
	})
	t.owe(releaseOf(form.Alias)) // Another turn may have claimed it between this claim and the commit.
	return t.applyOwn(AliasTaken, aliasTaken{Type: AliasTaken, Alias: form.Alias})
}

// rememberAlias notes an alias that the instance is about to claim.
func (t *turn) rememberAlias(alias string) {
	if !slices.Contains(t.draft.Record.Aliases, alias) {
		t.draft.Record.Aliases = append(slices.Clip(t.draft.Record.Aliases), alias)
	}
}

// forgetAlias notes that the instance has no claim to an alias.
func (t *turn) forgetAlias(alias string) {
	t.draft.Record.Aliases = without(t.draft.Record.Aliases, func(other string) bool { return other == alias })
}

// releaseAliases releases the aliases of an instance that has ended.
func (t *turn) releaseAliases() {
	if t.draft.Instance.Status() == statechart.Active {
		return
	}
	for _, alias := range t.draft.Record.Aliases {
		t.owe(releaseOf(alias))
	}
	t.draft.Record.Aliases = nil
}

// releaseOf is the effect that releases an alias. It is not a message, so its ID may repeat.
func releaseOf(alias string) statechart.Effect {
	return statechart.Effect{ID: "alias." + alias, Kind: statechart.ReleaseAlias, Name: alias}
}

// releaseAlias performs it, unless the instance has claimed the alias again since.
func (t *turn) releaseAlias(ctx context.Context, effect statechart.Effect) error {
	if slices.Contains(t.stored.Record.Aliases, effect.Name) {
		return nil
	}
	r := &t.stored.Record
	return t.loop.ports.Store.Release(ctx, effect.Name, r.Instance, r.CreatedAt, t.expireAt(*r))
}
