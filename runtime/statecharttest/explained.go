package statecharttest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// explained returns the text of an error and, if code has panicked, what with and where: the error itself does not tell, because in
// production that may be somebody's secret.
func explained(err error) string {
	var panicked *statechart.PanicError
	if !errors.As(err, &panicked) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v: %v\n  %s", err, panicked.Value, strings.Join(panicked.Stack, "\n  "))
}
