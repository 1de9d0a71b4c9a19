package simulate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The counts of runs, in addition to the faults of the director.
const (
	countConflict     = "conflict"
	countRepeatedSoon = "repeated soon"
	countRepeatedLate = "repeated late"
	countMalformed    = "malformed"
	countFailing      = "failing"
	countHuge         = "huge"
	countTimeOut      = "killed at its timeout"
	countNotTakenBack = "try not taken back"
	countKilled       = "killed by a service"
	countServiceFails = "service fails"
	countServiceHangs = "service hangs"
	countServiceSlow  = "service slow"
	countAbandoned    = "abandoned"
	countTaskTimedOut = "task timed out"
	countSkewed       = "skewed"
	countTwoQueues    = "two queues"
	countDeployed     = "deployed"
	countRolledBack   = "rolled back"
	countLost         = "delivery lost"
	countUnacked      = "acknowledgement lost"
	countBridge       = "event of EventBridge"
)

// faultKinds describes the kinds of faults.
var faultKinds = []struct{ kind, text string }{
	{failBefore.String(), "calls that never reached AWS"},
	{loseAnswer.String(), "calls that took effect, and whose answer was lost"},
	{throttle.String(), "calls that were throttled"},
	{duplicate.String(), "calls that the network made twice"},
	{nameOf(slow), "calls that took up to 25 s, longer than clients wait"},
	{nameOf(hang), "calls that never reached AWS, and hung until their caller gave up"},
	{nameOf(hangAfter), "calls that took effect, and hung until their caller gave up"},
	{nameOf(outage), "outages of a service, for 5 s to 10 minutes"},
	{nameOf(longOutage), "outages of a service, for 20 minutes to 6 hours"},
	{nameOf(partialOutage), "services with half of their writes failing, for 20 minutes to 6 hours"},
	{nameOf(killing), "times in which consumers died at random, for 20 minutes to 6 hours"},
	{nameOf(deny), "permissions missing for 70 minutes to 4 hours"},
	{countConflict, "writes that came after another process's, and were refused"},
	{freeze.String(), "processes frozen for 30 s to 3.5 minutes"},
	{dieBefore.String(), "processes that died before a call"},
	{dieAfter.String(), "processes that died after a call"},
	{countTimeOut, "processes killed at their timeout"},
	{countKilled, "processes killed by a service"},
	{countNotTakenBack, "tries that failed with AWS and could not be taken back"},
	{countServiceFails, "attempts of services that failed"},
	{countServiceHangs, "attempts of services that hung"},
	{countServiceSlow, "attempts of services that took 1.5 s"},
	{countLost, "batches that Lambda received and lost"},
	{countUnacked, "batches whose acknowledgement was lost"},
	{countRepeatedSoon, "events that a producer sent again within 5 minutes"},
	{countRepeatedLate, "events that a producer sent again later"},
	{countMalformed, "events of an undeclared type or the wrong shape"},
	{countFailing, "events that the chart fails on"},
	{countHuge, "events that make the snapshot too large"},
	{countAbandoned, "messages that a queue gave up"},
	{countBridge, "ends of executions that EventBridge delivered late, twice or never"},
	{countTaskTimedOut, "tasks that timed out"},
	{countSkewed, "runs with clocks up to 2 s off"},
	{countTwoQueues, "runs with two queues for one instance"},
	{countDeployed, "runs with a deployment in the middle"},
	{countRolledBack, "runs in which the old versions were deployed again for a while"},
}

// summary returns the counts of all runs, one line per kind: faults first, then the rest.
func summary(counts map[string]int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d runs, with these faults:\n", counts["runs"])
	rest := maps.Clone(counts)
	delete(rest, "runs")
	for _, fault := range faultKinds {
		fmt.Fprintf(&text, "%9d %s\n", counts[fault.kind], fault.text)
		delete(rest, fault.kind)
	}
	for _, one := range strains {
		fmt.Fprintf(&text, "%9d %s (%s)\n", counts[one.kind], one.text, one.document)
		delete(rest, one.kind)
	}
	text.WriteString("and these events:\n")
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		if !strings.Contains(kind, ".") { // a kind with a dot is a fault of a call
			fmt.Fprintf(&text, "%9d %s\n", rest[kind], kind)
		}
	}
	return text.String()
}

// countSending counts the defects of an event that a producer sends.
func (s *simulation) countSending(body string) {
	for part, kind := range map[string]string{
		fmt.Sprintf("%q", failing): countFailing, fmt.Sprintf("%q", huge): countHuge, `"serial":7`: countMalformed, `"undeclared"`: countMalformed,
	} {
		if strings.Contains(body, part) {
			s.count(kind, 1)
		}
	}
}
