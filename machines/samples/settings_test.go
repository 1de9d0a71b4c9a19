package samples

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
)

func TestLabelsAreSeparatedByCommas(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{"": nil, "gpu": {"gpu"}, "self-hosted, gpu": {"self-hosted", "gpu"}} {
		if diff := cmp.Diff(want, settings(host.NewEnv(hosttest.Environment(JobLabels+"="+value))).Job.Labels); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", JobLabels, value, diff)
		}
	}
}

func TestAnEmptyLabelIsAProblem(t *testing.T) {
	t.Parallel()
	_, _, err := host.Start(host.Function{Machines: Machines}, hosttest.Environment(JobLabels+"=gpu,"), hosttest.AWS(""), io.Discard, io.Discard)
	const want = `environment variable SETTLE_JOB_LABELS: expected labels separated by commas, such as self-hosted,gpu, got "gpu,"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
