package host

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/functions/internal/samples"
)

// TestEachFunctionNamesItsMissingVariables starts the functions with only the variables that Lambda sets, and without
// any.
func TestEachFunctionNamesItsMissingVariables(t *testing.T) {
	t.Parallel()
	lambdas := map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}
	for name, c := range map[string]struct {
		function boot.Function
		missing  []string
	}{
		"consumer":   {consumer(samples.ConsumerMachines), []string{boot.Table, boot.QueueURL, boot.DeadLetterQueueURL, boot.DelayQueueURL, samples.SignupCodeKey}},
		"gateway":    {gateway(samples.Machines, samples.Callbacks), []string{boot.Table, boot.QueueURL}},
		"tokentask":  {tokenTask(samples.Machines), []string{boot.QueueURL}},
		"delay":      {delay(), []string{boot.QueueURL, boot.DelayQueueURL}},
		"executions": {executions(), []string{boot.QueueURL}},
	} {
		for _, set := range []map[string]string{lambdas, nil} {
			want := slices.Clone(c.missing)
			if set == nil {
				want = append(want, "AWS_REGION", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
			}
			_, _, err := boot.Start(c.function, func(name string) (string, bool) { value, ok := set[name]; return value, ok }, io.Discard, io.Discard)
			if err == nil {
				t.Errorf("%s starts without %v", name, want)
				continue
			}
			var got []string
			for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "reading the settings: "), "\n") {
				variable, rest, _ := strings.Cut(strings.TrimPrefix(line, "environment variable "), ": expected ")
				got = append(got, variable)
				if expected, _, ok := strings.Cut(rest, ", got nothing: set "); !ok || expected == "" {
					t.Errorf("%s: %q does not name the expected value and the remedy", name, line)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}
