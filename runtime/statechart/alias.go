package statechart

import "fmt"

// Alias returns an action that claims another name for the instance, such as a third party's job ID: see
// docs/charts/aliases.md. The function returns 1 to AliasBytesMax printable ASCII characters without spaces. If two
// instances claim an alias, the first keeps it until that instance ends or uses Unalias.
func Alias[C any](fn func(C, Event) string) Action[C] { return aliasAction("alias", ClaimAlias, fn) }

// Unalias returns an action that releases an alias if the instance has it. Until another instance claims the alias,
// lookups still find this instance.
func Unalias[C any](fn func(C, Event) string) Action[C] {
	return aliasAction("unalias", ReleaseAlias, fn)
}

// aliasAction returns an action that requests an effect on the alias that fn returns.
func aliasAction[C any](name string, kind EffectKind, fn func(C, Event) string) Action[C] {
	return Action[C]{Name: name, actionBody: actionBody{run: func(x *interpreter) error {
		alias := fn(*contextOf[C](x), *x.event)
		if err := checkAlias(alias); err != nil {
			return err
		}
		return x.effect(Effect{Kind: kind, Name: alias})
	}}}
}

func checkAlias(alias string) error {
	if alias == "" || len(alias) > AliasBytesMax {
		return fmt.Errorf("expected an alias of 1 to %d bytes, got %d", AliasBytesMax, len(alias))
	}
	for i := range len(alias) {
		if alias[i] <= ' ' || alias[i] > '~' {
			return fmt.Errorf("expected an alias of printable ASCII characters without a space, got %q at byte %d", string([]rune(alias[i:])[:1]), i)
		}
	}
	return nil
}
