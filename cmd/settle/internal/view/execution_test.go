package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/instances"
)

func TestExecutionsAreShownWithTheirStatus(t *testing.T) {
	t.Parallel()
	r := record()
	r.Executions = []instances.Execution{
		{Name: "n-1", Workflow: "nightly", Event: "ended", StartedAt: noon.Add(-time.Hour), ARN: "arn:aws:states:us-east-1:000000000000:execution:nightly:n-1"},
		{Name: "n-2", Workflow: "night\x1bly", Event: "ended", StartedAt: noon.Add(-time.Minute)},
		{Name: "n-3", Workflow: "weekly", Event: "over", StartedAt: noon, Refused: &instances.Refusal{Error: "NOT_STARTED", Cause: "no such workflow"}},
		{Name: "n-4", Workflow: "yearly", Event: "over", StartedAt: noon, ARN: "arn of n-4", Refused: &instances.Refusal{Error: "AccessDeniedException"}},
	}
	v, err := Of(pipelines(t), r)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := v.WriteText(&b, console.Style{}, noon); err != nil {
		t.Fatal(err)
	}
	const want = "  workflow  nightly since 2026-01-02 11:00:00 UTC (1h00m ago), reports its end as ended\n" +
		"            night\\x1bly since 2026-01-02 11:59:00 UTC (1m00s ago), reports its end as ended; start not confirmed yet\n" +
		"            weekly since 2026-01-02 12:00:00 UTC (0s ago), reports its end as over; it will never start: NOT_STARTED: no such workflow\n" +
		"            yearly since 2026-01-02 12:00:00 UTC (0s ago), reports its end as over; start not confirmed, and the retry was refused: AccessDeniedException\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("expected\n%s\nin\n%s", want, b.String())
	}
	last := Execution{Workflow: "weekly", Name: "n-3", Event: "over", StartedAt: noon, Refused: "NOT_STARTED: no such workflow"}
	if !reflect.DeepEqual(v.Executions[2], last) || v.Executions[0].ARN != r.Executions[0].ARN {
		t.Errorf("expected them in JSON too, got %+v", v.Executions)
	}
}
