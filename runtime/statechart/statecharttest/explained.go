package statecharttest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// explained returns the text of an error. For a panic it adds the value and the stack. The error itself omits them,
// because in production they may contain secrets.
func explained(err error) string {
	var panicked *statechart.PanicError
	if !errors.As(err, &panicked) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v: %v\n  %s", err, panicked.Value, strings.Join(panicked.Stack, "\n  "))
}
