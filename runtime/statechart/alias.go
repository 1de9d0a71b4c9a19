package statechart

import "fmt"

// AliasBytesMax is the longest alias of an instance.
const AliasBytesMax = 256

// Alias returns an action that makes the instance known under another name too, such as the ID that a
// third party gave its job, once this step is stored: the host's front ends find the instance by it, for as long
// as the instance is kept. The
// function makes the alias: 1 to AliasBytesMax printable ASCII characters without a space. Of two instances
// that claim the same alias the first has it, until it ends or releases it with Unalias; the host tells the second.
func Alias[C any](fn func(C, Event) string) Action[C] { return aliasAction("alias", ClaimAlias, fn) }

// Unalias returns an action that releases an alias of the instance, once this step is stored, so that another instance can
// claim it. Until one does, front ends still find this instance by it. Releasing an alias that the instance does not have does
// nothing. The instance may claim the alias again later, as any other instance may.
func Unalias[C any](fn func(C, Event) string) Action[C] {
	return aliasAction("unalias", ReleaseAlias, fn)
}

// aliasAction returns an action that asks for an effect on the alias that the function makes.
func aliasAction[C any](name string, kind EffectKind, fn func(C, Event) string) Action[C] {
	return Action[C]{Name: name, actionBody: actionBody{run: func(x *interpreter) error {
		alias := fn(*contextOf[C](x), *x.event)
		if err := checkAlias(alias); err != nil {
			return err
		}
		return x.effect(Effect{Kind: kind, Name: alias})
	}}}
}

// checkAlias reports what is wrong with an alias.
func checkAlias(alias string) error {
	if alias == "" || len(alias) > AliasBytesMax {
		return fmt.Errorf("expected an alias of 1 to %d bytes, got %d", AliasBytesMax, len(alias))
	}
	for i := range len(alias) {
		if alias[i] <= ' ' || alias[i] > '~' {
			return fmt.Errorf("expected an alias of printable ASCII characters without a space, got %q at byte %d", alias[i:i+1], i)
		}
	}
	return nil
}
