package statechart

import "fmt"

// AliasBytesMax is the longest alias of an instance.
const AliasBytesMax = 256

// Alias returns an action that makes the instance known under another name too, such as the ID that a
// third party gave its job, once this step is stored: the host's front ends find the instance by it, for as long
// as the instance is kept. The
// function makes the alias: 1 to AliasBytesMax printable ASCII characters without a space. Of two instances
// that claim the same alias the first has it, until it ends; the host tells the second.
func Alias[C any](fn func(C, Event) string) Action[C] {
	return Action[C]{Name: "alias", actionBody: actionBody{run: func(x *interpreter) error {
		alias := fn(*contextOf[C](x), *x.event)
		if err := checkAlias(alias); err != nil {
			return err
		}
		return x.effect(Effect{Kind: ClaimAlias, Name: alias})
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
