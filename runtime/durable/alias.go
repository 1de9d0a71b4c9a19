package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// aliasTakenEvent tells the loop so.
const aliasTakenEvent = statechart.ReservedPrefix + "alias.taken"

// aliasTaken is the body of both.
type aliasTaken struct {
	Type string `json:"type"`
	// ID tells a repeat that comes after SQS has forgotten the first: the outbox may be stuck for longer.
	ID          string `json:"$id,omitempty"`
	Alias       string `json:"alias"`
	Incarnation int64  `json:"$incarnation,omitempty"`
}

// claim makes the instance known under an alias, or tells the chart that another has it.
func (t *turn) claim(ctx context.Context, effect statechart.Effect) error {
	err := t.loop.ports.Store.Claim(ctx, effect.Name, t.record.Instance, t.record.CreatedAt)
	if !errors.Is(err, ErrAliasTaken) {
		return err
	}
	level := slog.LevelError // Nobody else hears of it.
	if slices.Contains(t.machine.Events(), AliasTaken) {
		level = slog.LevelInfo
	}
	t.loop.config.Logger.Log(ctx, level, "alias is taken", "instance", t.record.Instance.String(), "alias", effect.Name, "error", err)
	id := t.derivedID(effect.ID)
	return t.loop.send(ctx, t.record.Instance, aliasTaken{Type: aliasTakenEvent, ID: id, Alias: effect.Name, Incarnation: t.incarnation()}, id)
}

// rememberAlias notes an alias that the instance is about to claim.
func (t *turn) rememberAlias(alias string) {
	if !slices.Contains(t.record.Aliases, alias) {
		t.record.Aliases = append(slices.Clip(t.record.Aliases), alias)
	}
}

// releaseAliases asks to let others claim the aliases of an instance that has ended.
func (t *turn) releaseAliases() {
	if t.instance.Status() == statechart.Active {
		return
	}
	for _, alias := range t.record.Aliases {
		t.record.Outbox = append(t.record.Outbox, statechart.Effect{ID: "alias." + alias, Kind: release, Name: alias})
	}
	t.record.Aliases = nil
}

// release is the kind of an effect that lets others claim the alias Name.
const release statechart.EffectKind = "release"

// applyAliasTaken tells the chart, if it declares the event, and forgets the alias.
func (t *turn) applyAliasTaken(body string) error {
	var form aliasTaken
	if err := json.Unmarshal([]byte(body), &form); err != nil {
		return err
	}
	t.record.Aliases = slices.DeleteFunc(slices.Clone(t.record.Aliases), func(alias string) bool { return alias == form.Alias })
	t.dirty = true
	return t.applyOwn(AliasTaken, aliasTaken{Type: AliasTaken, Alias: form.Alias})
}

// applyOwn applies an event that the loop itself makes, if the chart declares it.
func (t *turn) applyOwn(typ string, form any) error {
	if !slices.Contains(t.machine.Events(), typ) {
		return nil
	}
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	event, err := t.machine.Decode(body)
	if err != nil {
		return fmt.Errorf("the chart's own form of %q: %w", typ, err)
	}
	event.At = t.loop.config.Now()
	return t.apply(event)
}
