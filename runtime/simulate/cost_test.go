package simulate_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/infra/prices"
)

var (
	writeCost     = flag.Bool("cost", false, "write the tables of docs/cost.md, docs/floods.md and docs/scaling.md")
	costScaleFlag = flag.Int("cost.scale", 0, "divide the numbers of events of the cost runs by this (default 10, with -short 100)")
)

// The scenario of the estimate in docs/cost.md, and its assumptions.
const (
	callsMonth = 10_000 * 30
	waitSecond = 5 * 60
	// runSeconds is the total running time of all functions for one call. gigabytes is the memory of each function.
	runSeconds, gigabytes = 2, 1
	// idlePolls is how many requests Lambda's pollers make for a queue in a month: five concurrent long polls of 20
	// seconds.
	idlePolls = 5 * 3 * 60 * 24 * 30
)

// callCost counts the AWS calls and the units that one call of the scenario costs.
type callCost struct {
	// calls counts the calls of consumer, forwarder and gateway, by service and operation.
	calls       map[string]int
	invocations map[string]int
	// states counts the states that the execution entered.
	states int
	// instanceUnits and aliasUnits are the write units of the final items.
	instanceUnits, aliasUnits int
}

// measureCall plays the scenario: a workflow's task, five minutes' wait, a callback with 1 KB of data.
func measureCall(t *testing.T) (c callCost) {
	t.Helper()
	counted := &faults{}
	inWorld(t, options{faults: counted}, func(w *world) {
		execution := w.enrich(demo, company)
		w.await(demo, "waiting")
		time.Sleep(waitSecond * time.Second)
		w.wantCallBack(w.effects.callbackURL(company), strings.Replace(found, "Acme", strings.Repeat("A", 1024-len(`{"name":""}`)), 1), http.StatusAccepted)
		way, _ := w.ended(execution)
		c.states = len(strings.Fields(way))
		time.Sleep(time.Hour) // Wait until all timers would have fired.
		c.instanceUnits, c.aliasUnits = w.writeUnits(demo), w.writeUnits("alias/enricher/job-7")
	})
	c.calls = map[string]int{}
	for _, call := range counted.calls {
		c.calls[call]++
	}
	c.invocations = counted.invocations
	return c
}

// writeUnits returns the write units that one write of the item consumes.
func (w *world) writeUnits(instance string) int {
	w.t.Helper()
	client := dynamodb.NewFromConfig(w.aws(w.cloud.HTTPClient(), true))
	written, err := client.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: w.item(instance), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
	if err != nil {
		w.t.Fatal(err)
	}
	return int(*written.ConsumedCapacity.CapacityUnits)
}

// madeFor lists the AWS calls of one scenario, each with its caller and its purpose.
var madeFor = []struct {
	call  string
	times int
	by    string
}{
	{"dynamodb.GetItem", 2, "consumer: reads the instance, for the ENRICH and for the callback"},
	{"dynamodb.PutItem", 2, "consumer: commits the instance, twice"},
	{"dynamodb.TransactWriteItems", 1, "consumer: claims the alias, if the instance has not changed"},
	{"dynamodb.UpdateItem", 4, "gateway: redeems the alias; consumer: clears the outbox, twice, and releases the alias"},
	{"scheduler.CreateSchedule", 1, "consumer: the timer of the expiry"},
	{"scheduler.DeleteSchedule", 1, "consumer: cancels it"},
	{"states.SendTaskSuccess", 1, "consumer: ends the wait of the task"},
	{"sqs.SendMessage", 1, "gateway: the callback, to the FIFO queue"},
}

func TestACallMakesTheAWSCallsInTheDocument(t *testing.T) {
	t.Parallel()
	c := measureCall(t)
	want := map[string]int{}
	for _, m := range madeFor {
		want[m.call] = m.times
	}
	if !maps.Equal(want, c.calls) {
		t.Errorf("want the calls %v, got %v", want, c.calls)
	}
	if invoked := map[string]int{"consumer": 2, "gateway": 1}; !maps.Equal(invoked, c.invocations) {
		t.Errorf("want the invocations %v, got %v", invoked, c.invocations)
	}

	tables := map[string]string{"calls": callTable(c), "bill": billTable(c), "comparison": comparisonTable(c)}
	wantInDocument(t, tables)
}

// document guards the pages that tests check and write concurrently.
var document sync.Mutex

// wantInDocument calls wantInPage for docs/cost.md.
func wantInDocument(t *testing.T, tables map[string]string) {
	t.Helper()
	wantInPage(t, "../../docs/cost.md", tables)
}

// wantInPage checks that a page contains the tables, each under its name. With writeCost, it writes them instead.
func wantInPage(t *testing.T, path string, tables map[string]string) {
	t.Helper()
	document.Lock()
	defer document.Unlock()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := string(text)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		begin, end := "<!-- "+name+" -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(written, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("expected %s in %s", strings.TrimSpace(begin), path)
		}
		written = before + begin + tables[name] + end + after
	}
	if written == string(text) {
		return
	}
	if !*writeCost {
		t.Fatalf("%s shows other figures: run make cost COST_FLAGS=-cost, and read what changes", path)
	}
	if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
}

func callTable(c callCost) string {
	var b strings.Builder
	b.WriteString("| call | times | made by |\n|---|---|---|\n")
	for _, m := range madeFor {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", m.call, c.calls[m.call], m.by)
	}
	fmt.Fprintf(&b, "| Lambda invocations | %d | consumer %d, gateway %d |\n", c.invocations["consumer"]+c.invocations["gateway"], c.invocations["consumer"], c.invocations["gateway"])
	return b.String()
}

// line is one line of a bill.
type line struct {
	what    string
	perCall float64 // units per call; 0 for a line that does not depend on calls
	month   float64 // units per month
	price   float64 // the price of one unit
	unit    string  // the quantity in the price list, such as "million requests"
	of      float64 // the number of units in this quantity, such as 1e6
}

func (l line) dollars() float64 { return l.month * l.price }

// bill returns the lines for 300,000 calls.
func bill(c callCost) []line {
	perCall := func(what string, units, price float64, unit string, of float64) line {
		return line{what, units, units * callsMonth, price / of, unit, of}
	}
	sent := 1 + c.calls["sqs.SendMessage"] // Step Functions sends one message too
	received := c.invocations["consumer"]
	// Each commit writes the instance, and so does each update that clears the outbox. Each of these writes counts one
	// more unit, for the outbox. The other writes are for the alias. The claim is a transaction that writes the alias and
	// checks the instance, both at twice the units (DynamoDB Developer Guide, "DynamoDB read and write operations").
	const aliasWrites = 2
	instanceWrites, claims := c.calls["dynamodb.PutItem"]+c.calls["dynamodb.UpdateItem"]-aliasWrites, c.calls["dynamodb.TransactWriteItems"]
	writes := instanceWrites*(c.instanceUnits+1) + aliasWrites*c.aliasUnits + claims*2*(c.instanceUnits+1+c.aliasUnits)
	const million = 1e6
	return []line{
		perCall(fmt.Sprintf("Step Functions, Standard: the start, and %d state", c.states), float64(1+c.states), prices.MillionTransitions, "million transitions", million),
		perCall("Lambda, x86: the estimate's 2 s at 1 GB", runSeconds*gigabytes, prices.GigabyteSecondX86, "GB-second", 1),
		perCall("Lambda: invocations", float64(c.invocations["consumer"]+c.invocations["gateway"]), prices.MillionInvocations, "million", million),
		perCall(fmt.Sprintf("SQS FIFO: %d sends, %d receives and %d deletes by Lambda's pollers", sent, received, received), float64(sent+2*received), prices.MillionFIFORequests, "million requests", million),
		perCall(fmt.Sprintf("DynamoDB, on demand: %d writes of the instance (%d KB each), %d of the alias (%d KB), %d transaction of both", instanceWrites, c.instanceUnits+1, aliasWrites, c.aliasUnits, claims),
			float64(writes), prices.MillionWriteUnits, "million write units", million),
		perCall(fmt.Sprintf("DynamoDB, on demand: %d consistent reads (up to 4 KB)", c.calls["dynamodb.GetItem"]), float64(c.calls["dynamodb.GetItem"]), prices.MillionReadUnits, "million read units", million),
		perCall("EventBridge Scheduler: firings, as the timer is cancelled", 0, prices.MillionSchedules, "million firings", million),
		perCall("API Gateway, HTTP API: the callback", float64(c.invocations["gateway"]), prices.MillionHTTPRequests, "million requests", million),
		{"SQS FIFO: Lambda's idle pollers", 0, idlePolls, prices.MillionFIFORequests / million, "million requests", million},
		{"SQS standard, the delay queue: the same", 0, idlePolls, prices.MillionSQSRequests / million, "million requests", million},
	}
}

func billTable(c callCost) string {
	var b strings.Builder
	b.WriteString("| what | units per call | units a month | list price | a month |\n|---|---|---|---|---|\n")
	total := 0.0
	for _, l := range bill(c) {
		per := fmt.Sprint(l.perCall)
		if l.perCall == 0 && l.month > 0 {
			per = "none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | $%s a %s | $%.2f |\n", l.what, per, thousands(int(l.month)), price(l.price*l.of), l.unit, l.dollars())
		total += l.dollars()
	}
	fmt.Fprintf(&b, "| **all** | | | | **$%.2f** |\n", total)
	return b.String()
}

// comparisonTable compares the costs of several ways to wait, by the same rules. Each function run of a polling
// workflow takes a second, half of the estimate's two seconds. Each state of a workflow costs a transition, and so does
// the workflow's start.
func comparisonTable(c callCost) string {
	const x86, transition = prices.GigabyteSecondX86 * gigabytes, prices.MillionTransitions / 1e6
	var b strings.Builder
	b.WriteString("| how it waits | function seconds per call | transitions per call | functions | transitions | other | a month |\n|---|---|---|---|---|---|---|\n")
	row := func(how string, seconds, gigabyteSecond float64, transitions int, rest float64) {
		functions, moved := seconds*gigabyteSecond*callsMonth, float64(transitions)*transition*callsMonth
		shown := "not counted"
		if rest > 0 {
			shown = fmt.Sprintf("$%.2f", rest)
		}
		fmt.Fprintf(&b, "| %s | %g | %d | $%s | $%s | %s | **$%s** |\n", how, seconds, transitions, cents(functions), cents(moved), shown, cents(functions+moved+rest))
	}
	polling := func(every int) {
		polls := waitSecond / every
		row(fmt.Sprintf("a workflow that polls every %d s: Wait, Task, Choice", every), float64(1+polls), x86, 2+3*polls, 0)
	}
	rest := 0.0
	for i, l := range bill(c) {
		if i > 1 {
			rest += l.dollars()
		}
	}
	row("the estimate's function that polls until the job is done", waitSecond, x86, 0, 0)
	polling(5)
	polling(30)
	row("the estimate's callback", runSeconds, x86, 2, 0)
	row("this runtime, by the same rules", runSeconds, x86, 1+c.states, 0)
	row("this runtime, all of the bill above", runSeconds, x86, 1+c.states, rest)
	row("the same, functions of 256 MB on arm64", runSeconds, prices.GigabyteSecondARM/4, 1+c.states, rest)
	return b.String()
}

// price formats a price with cents and without further trailing zeros.
func price(dollars float64) string {
	text := strings.TrimRight(fmt.Sprintf("%.10f", dollars), "0")
	for len(text)-strings.IndexByte(text, '.') < 3 {
		text += "0"
	}
	return text
}

func cents(dollars float64) string {
	whole := int(dollars*100 + 0.5)
	return fmt.Sprintf("%s.%02d", thousands(whole/100), whole%100)
}

// thousands formats a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
