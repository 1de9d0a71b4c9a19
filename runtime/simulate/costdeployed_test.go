package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/prices"
	"github.com/settle-run/settle/runtime/durable"
)

// These are the sizes of the consumer's log lines at level info, for an event that logs only the line "event applied".
// A test of runtime/host measures the first two sizes, and compares them with the table in docs/cost.md.
const (
	eventLineBytes   = 290 // the line "event applied"
	metricsLineBytes = 280 // the metrics of an invocation
	lambdaLinesBytes = 260 // START, END and REPORT of an invocation, which Lambda writes; an assumption
)

// deployedRun is a run whose invocations each receive one event. It has the settings of infra/template.yaml, except
// where its fields change them.
type deployedRun struct {
	name string
	// typ is the events' type.
	typ string
	// historyMax is how many transitions the instance keeps; 0 means the default.
	historyMax            int
	withoutIndex, warning bool
}

var deployedRuns = []deployedRun{
	{name: "as deployed", typ: "hop"},
	{name: "as deployed, and the event does not change the state", typ: "add"},
	{name: "with `Props.WithoutIndex`", typ: "hop", withoutIndex: true},
	{name: "with `SETTLE_HISTORY_MAX=3`", typ: "hop", historyMax: 3},
	{name: "with `SETTLE_LOG_LEVEL=warn`", typ: "hop", warning: true},
	{name: "with all three", typ: "hop", withoutIndex: true, historyMax: 3, warning: true},
}

// logBytes returns the size of the log of an invocation that receives one event.
func (r deployedRun) logBytes() int {
	if r.warning {
		return metricsLineBytes + lambdaLinesBytes
	}
	return eventLineBytes + metricsLineBytes + lambdaLinesBytes
}

func TestADeployedStackCostsWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	used := make([]usage, len(deployedRuns))
	t.Run("play", func(t *testing.T) {
		for i, run := range deployedRuns {
			t.Run(run.name, func(t *testing.T) {
				t.Parallel()
				m := &meter{}
				n := costRun{events: 1000, atLeast: 50}.scaled()
				o := options{meter: m, indexed: !run.withoutIndex, historyMax: run.historyMax, more: []durable.Machine{tallying()}}
				inWorld(t, o, func(w *world) {
					w.playAlone(n, textBytes, run.typ)
					used[i] = m.usage()
					w.wantQueuesEmpty()
				})
				if got := used[i]; got.events != n || got.invocations != n || got.gets != n || got.puts != n || got.updates != 0 || got.refused != 0 {
					t.Errorf("want %d events, each an invocation, a read and a write; got %+v", n, got)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	text := deployedTable(used)
	t.Logf("\n%s", text)
	wantInDocument(t, map[string]string{"deployed": text, "logs": logTable()})
}

// deployedTable returns the table of the deployed runs, for a million events.
func deployedTable(used []usage) string {
	var b strings.Builder
	b.WriteString("| | write units of the item | of the index | bytes of log | SQS | DynamoDB | Lambda | logs | a million events |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for i, u := range used {
		run, events, bill := deployedRuns[i], float64(u.events), u.dollars()
		logs := float64(run.logBytes()) * 1e6 / 1e9 * prices.GigabyteLogs
		fmt.Fprintf(&b, "| %s | %g | %g | %d | $%.2f | $%.2f | $%.2f | $%.2f | **$%.2f** |\n", run.name,
			(u.write-u.index)/events, u.index/events, run.logBytes(), bill.sqs, bill.dynamodb, bill.lambda, logs, bill.total()+logs)
	}
	return b.String()
}

// logTable returns the table of the log's sizes.
func logTable() string {
	return fmt.Sprintf("| what is logged | bytes | |\n|---|---|---|\n"+
		"| of each event, the line \"event applied\" | %d | measured |\n"+
		"| of each invocation, the line of its metrics | %d | measured |\n"+
		"| of each invocation, the lines START, END and REPORT | %d | an assumption: Lambda writes them |\n", eventLineBytes, metricsLineBytes, lambdaLinesBytes)
}
