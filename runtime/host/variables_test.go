package host_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
)

// TestEachFunctionNamesItsMissingVariables starts each function twice without variables: with the AWS settings that
// Lambda sets, and without AWS settings.
func TestEachFunctionNamesItsMissingVariables(t *testing.T) {
	t.Parallel()
	none := func(context.Context) (aws.Config, error) {
		return aws.Config{Credentials: credentials.StaticCredentialsProvider{}}, nil
	}
	for name, c := range map[string]struct {
		function host.Function
		missing  []string
	}{
		"consumer":   {host.Consumer(samples.ConsumerMachines), []string{host.Table, host.QueueURL, host.DeadLetterQueueURL, host.DelayQueueURL, samples.SignupCodeKey}},
		"gateway":    {host.Gateway(samples.Machines, samples.ThirdParties), []string{host.Table, host.QueueURL}},
		"tokentask":  {host.TokenTask(samples.Machines), []string{host.QueueURL}},
		"delay":      {host.Delay(), []string{host.QueueURL, host.DelayQueueURL}},
		"executions": {host.Executions(), []string{host.QueueURL}},
	} {
		for _, load := range []host.LoadAWS{hosttest.AWS(""), none} {
			want := slices.Clone(c.missing)
			if config, _ := load(t.Context()); config.Region == "" { // Neither loader fails.
				want = append(want, "AWS_REGION", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
			}
			_, _, err := host.Start(c.function, hosttest.Environment(), load, io.Discard, io.Discard)
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
