package statechart_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// The contexts of one build and of the next build.
type (
	cart struct {
		Amount int        `json:"amount"`
		Lines  []cartLine `json:"lines,omitempty"`
	}
	cartLine struct{ SKU string }
	grown    struct {
		Amount int         `json:"amount"`
		Coupon string      `json:"coupon,omitempty"`
		Lines  []grownLine `json:"lines,omitempty"`
	}
	grownLine struct {
		SKU  string
		Gift string `json:"gift,omitempty"`
	}
	// lenient decides itself which keys it reads.
	lenient struct{ Amount int }
)

func (l *lenient) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, (*struct{ Amount int })(l))
}

// carts returns a chart over a context.
func carts[C any](t *testing.T, version int, context C, document *foreign.Document, migrations ...statechart.Migration) *statechart.Chart[C] {
	t.Helper()
	chart, err := statechart.Compile(statechart.Definition[C]{
		ID: "cart", Version: version, Initial: "open", Payloads: events("GO"), Migrations: migrations, Foreign: document,
		Context: func(statechart.Start) C { return context },
		States:  []statechart.State[C]{{ID: "open", Tags: settled, On: []statechart.Transition[C]{{Event: "GO"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func TestRestoreRefusesAContextWithUnknownKeys(t *testing.T) {
	t.Parallel()
	store := func(context grown) string {
		step, err := carts(t, 1, context, nil).Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		return text(t, step.Next)
	}
	plain := store(grown{Amount: 7, Lines: []grownLine{{SKU: "a"}}})
	coupon, gift := store(grown{Amount: 7, Coupon: "SAVE10"}), store(grown{Lines: []grownLine{{}, {SKU: "a", Gift: "b"}}})
	const (
		deploy = `; deploy the build that stores this key, or raise Version and drop the key with MigrateContext`
		old    = `migrating from version 1, migrate the context: the old context: unknown key "coupon": declare it in statechart_test.cart, or deploy the build that stores it; fix the migration`
	)
	now, anything := carts(t, 1, cart{}, nil).Restore, carts(t, 1, map[string]any{}, nil).Restore
	migrated := carts(t, 2, grown{}, nil, statechart.Migration{From: 1, Changes: []statechart.Change{
		statechart.MigrateContext(func(old cart) grown { return grown{Amount: old.Amount} })}}).Restore
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"fields that are not set", second(now([]byte(plain))), ""},
		{"another case", second(now([]byte(strings.Replace(plain, `"amount"`, `"AMOUNT"`, 1)))), ""},
		{"a field", second(now([]byte(coupon))), `context: unknown key "coupon"` + deploy},
		{"a field of an element", second(now([]byte(gift))), `context: unknown key "lines[1].gift"` + deploy},
		{"with spaces", second(now([]byte(strings.ReplaceAll(coupon, ":", " : ")))), `context: unknown key "coupon"` + deploy},
		{"of version 1", second(migrated([]byte(coupon))), old},
		{"a map", second(anything([]byte(gift))), ""},
		{"own UnmarshalJSON", second(carts(t, 1, lenient{}, nil).Restore([]byte(coupon))), ""},
		{"raw JSON", second(carts(t, 1, json.RawMessage("{}"), nil).Restore([]byte(coupon))), ""},
		{"foreign", second(carts(t, 1, cart{}, &foreign.Document{}).Restore([]byte(coupon))), ""},
	} {
		got := ""
		if c.err != nil {
			got = strings.TrimPrefix(c.err.Error(), "unreadable snapshot of chart cart: ")
		}
		equal(t, c.name, got, c.want)
		if c.err != nil && !errors.Is(c.err, statechart.ErrUnreadable) {
			t.Errorf("%s: want an ErrUnreadable, got %v", c.name, c.err)
		}
	}
}

func second[C any](_ statechart.Snapshot[C], err error) error { return err }
