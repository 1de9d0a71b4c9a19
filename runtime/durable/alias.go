package durable

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// AliasTaken is the type of an event with the key alias. A chart that declares it receives it after it claimed the
// alias of another instance.
const AliasTaken = "alias.taken"

// aliasTaken is the body of aliasTakenEvent and of AliasTaken.
type aliasTaken struct {
	Type string `json:"type"`
	// ID lets the instance recognise a repeat of the message. SQS may no longer drop the repeat as a duplicate, because
	// a stuck outbox may send it hours later.
	ID          string `json:"$id,omitempty"`
	Alias       string `json:"alias"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// claim claims an alias. If another instance has the alias, claim sends a message to its own instance: see
// applyAliasTaken.
func (t *turn) claim(ctx context.Context, effect statechart.Effect) error {
	if !slices.Contains(t.stored.Record.Aliases, effect.Name) {
		return nil // The same outbox also releases this alias, and another turn may already have performed the release.
	}
	err := t.claimNow(ctx, effect.Name)
	if !errors.Is(err, ErrAliasTaken) {
		return err
	}
	id := t.derivedID(effect.ID)
	return t.loop.send(ctx, t.draft.Record.Instance, aliasTaken{Type: aliasTakenEvent, ID: id, Alias: effect.Name, Incarnation: t.incarnation()}, id, effect.Chain)
}

// claimNow claims an alias, on condition that the stored revision has not changed. If another turn wrote the instance
// while this turn was frozen, claimNow claims nothing.
func (t *turn) claimNow(ctx context.Context, alias string) error {
	r := &t.stored.Record
	return t.loop.ports.Store.Claim(ctx, alias, r.Instance, r.CreatedAt, r.Revision)
}

// applyAliasTaken notifies the chart, if the chart declares the event, that another instance has the alias. First it
// tries the claim again: since the message was sent, the other instance may have released the alias, and this instance
// may have claimed it.
func (t *turn) applyAliasTaken(ctx context.Context, form aliasTaken) error {
	if !slices.Contains(t.draft.Record.Aliases, form.Alias) || !t.exists() {
		return nil
	}
	err := t.claimNow(ctx, form.Alias)
	switch {
	case errors.Is(err, ErrRefused):
		return nil // The message is forged: no instance can have such an alias.
	case !errors.Is(err, ErrAliasTaken):
		return err
	}
	level := slog.LevelError // If the chart does not declare the event, the log is the only notification.
	if t.declares(AliasTaken) {
		level = slog.LevelInfo
	}
	t.loop.config.Logger.Log(ctx, level, "alias is taken", "instance", t.draft.Record.Instance.String(), "alias", form.Alias, "error", err)
	t.forgetAlias(form.Alias)
	t.draft.Record.Outbox = without(t.draft.Record.Outbox, func(e statechart.Effect) bool { // The store would refuse these claims too.
		return e.Kind == statechart.ClaimAlias && e.Name == form.Alias
	})
	t.owe(releaseOf(form.Alias)) // Another turn of this instance may claim the alias before this turn commits.
	return t.applyOwn(AliasTaken, aliasTaken{Type: AliasTaken, Alias: form.Alias})
}

// rememberAlias records an alias that the instance is about to claim.
func (t *turn) rememberAlias(alias string) {
	if !slices.Contains(t.draft.Record.Aliases, alias) {
		t.draft.Record.Aliases = append(slices.Clip(t.draft.Record.Aliases), alias)
	}
}

// forgetAlias records that the instance no longer claims an alias.
func (t *turn) forgetAlias(alias string) {
	t.draft.Record.Aliases = without(t.draft.Record.Aliases, func(other string) bool { return other == alias })
}

// releaseOf makes the effect that releases an alias. The effect sends no message, so its ID may repeat.
func releaseOf(alias string) statechart.Effect {
	return statechart.Effect{ID: "alias." + alias, Kind: statechart.ReleaseAlias, Name: alias}
}

// releaseAlias releases an alias. The store releases nothing if the instance has claimed the alias again since.
func (t *turn) releaseAlias(ctx context.Context, effect statechart.Effect) error {
	r := &t.stored.Record
	return t.loop.ports.Store.Release(ctx, effect.Name, r.Instance, r.CreatedAt, t.expireAt(*r))
}
