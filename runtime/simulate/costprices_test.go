package simulate_test

import (
	"fmt"
	"strings"

	"github.com/settle-run/settle/infra/prices"
)

// eventBill is the price of a million events in dollars, by service.
type eventBill struct{ sqs, dynamodb, lambda, scheduler float64 }

func (b eventBill) total() float64 { return b.sqs + b.dynamodb + b.lambda + b.scheduler }

// dollars returns the price of a million events that have the average usage of the measured events.
func (u usage) dollars() eventBill {
	events := float64(u.events)
	return eventBill{
		sqs:       (float64(u.fifo)*prices.MillionFIFORequests + float64(u.standard)*prices.MillionSQSRequests) / events,
		dynamodb:  (u.read*prices.MillionReadUnits + u.write*prices.MillionWriteUnits) / events,
		lambda:    float64(u.invocations) * prices.MillionConsumerInvocations / events,
		scheduler: float64(u.firings) * prices.MillionSchedules / events,
	}
}

// eventTable returns the table of the runs: the usage of one event, which does not depend on the number of events,
// and the price of a million events.
func eventTable(used []usage) string {
	var b strings.Builder
	b.WriteString("| run | events | FIFO requests | standard requests | reads | writes | read units | write units | Lambda requests | SQS | DynamoDB | Lambda | Scheduler | a million events |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, u := range used {
		each := func(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", n/float64(u.events)), ".00") }
		bill := u.dollars()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | $%.2f | $%.2f | $%.2f | $%.2f | **$%.2f** |\n", costRuns[i].name, thousands(costRuns[i].events),
			each(float64(u.fifo)), each(float64(u.standard)), each(float64(u.gets)), each(float64(u.puts+u.updates+u.transactions)), each(u.read), each(u.write), each(float64(u.invocations)),
			bill.sqs, bill.dynamodb, bill.lambda, bill.scheduler, bill.total())
	}
	return b.String()
}
