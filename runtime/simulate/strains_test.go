package simulate_test

import (
	"flag"
	"math/rand/v2"
	"regexp"
	"time"
)

var simulateStrain = flag.String("simulate.strain", "", "give each run exactly the strains whose kinds match this regular `expression`")

// strain is a condition that lasts for a whole run, unlike a fault, which hits a single call. A document of AWS, or the
// runtime itself, allows the condition, even if it is rare.
type strain struct {
	// `kind` and `text` name the strain in the summary of all runs. `document` names the source that allows the
	// condition.
	kind, text, document string
	// One run in oneIn has the strain; 0 disables it.
	oneIn int
	draw  func(*plan, *rand.Rand)
}

var strains = []strain{
	{"lagging reads", "runs in which reads of executions lag", "Step Functions API Reference, DescribeExecution: eventually consistent", 8, func(p *plan, rng *rand.Rand) {
		p.lag = anyOf(rng, 10*time.Second, 2*time.Minute, 10*time.Minute)
		if rng.IntN(4) > 0 { // usually lose the replies to answers, so that the runtime must read the lagging history to learn whether an answer took effect
			p.aim = aim{kinds: map[string]fault{"states.SendTaskSuccess": loseAnswer, "states.SendTaskFailure": loseAnswer}, tasks: true}
		}
	}},
	{"latencies", "runs whose calls take up to 3 s each", "DynamoDB Developer Guide, \"Troubleshooting latency issues\": no latency is promised", 8, func(p *plan, _ *rand.Rand) {
		p.latencies = true
	}},
	{"long outboxes", "runs with outboxes that take longer than an invocation", "Lambda Developer Guide, \"Configure Lambda function timeout\": it ends whatever still runs", 8, func(p *plan, _ *rand.Rand) {
		p.longOutboxes = true
	}},
	{"kills in a row", "runs whose messages meet again in one batch, kill after kill", "SQS Developer Guide, \"Visibility timeout\" and \"FIFO queue delivery logic\": messages received together become visible together, and a receive returns messages of several groups", 8, func(p *plan, _ *rand.Rand) {
		p.killsInARow = true
	}},
	{"small limits", "runs with limits of 1 or 2 in the loops' Config", "of the runtime's own: durable.Config", 8, func(p *plan, rng *rand.Rand) {
		for _, limit := range []*int{&p.config.AttemptsMax, &p.config.AbandonedMax, &p.config.ServicesMax, &p.config.ConflictsMax} {
			if rng.IntN(2) == 0 {
				*limit = 1 + rng.IntN(2)
			}
		}
		p.config.SlowAfter = anyOf(rng, 0, time.Millisecond, time.Minute)
		// The loop must not give up on an answer while reads of the history lag. So the wait is longer than the lag,
		// even if two clocks with errors measure it.
		p.config.DeniedWaitMax = anyOf(rng, 0, time.Second+p.lag+2*clockSkewMax)
		for _, limit := range []*int{&p.config.SendersMax, &p.config.OutboxMax, &p.config.AloneAfter} {
			if rng.IntN(2) == 0 {
				*limit = 1 + rng.IntN(2)
			}
		}
	}},
	{"long horizons", "runs that wait for days where others wait for minutes", "SQS Developer Guide, \"Message retention\": up to 14 days", 8, func(p *plan, _ *rand.Rand) {
		p.horizon = 200
	}},
	{"retention", "runs whose items expire, and are deleted at once or days late", "DynamoDB Developer Guide, \"Using time to live\": typically within a few days", 8, func(p *plan, rng *rand.Rand) {
		p.retention, p.ttlDelay = anyOf(rng, time.Second, time.Minute, time.Hour), anyOf[time.Duration](rng, -1, -1, 0, 72*time.Hour, 10*24*time.Hour)
		p.aim = aim{kinds: map[string]fault{"sqs.SendMessage": outage}, about: `\"told\"`}
	}},
	{"restores", "runs in which an operator restores instances from a backup", "DynamoDB API Reference, RestoreTableToPointInTime: to any point in time of the last 35 days", 16, func(p *plan, _ *rand.Rand) {
		p.restores = true
	}},
	{"operators", "runs in which operators stop, terminate, move, keep, unkeep and forget instances", "of the runtime's own: ADR 35", 8, func(p *plan, _ *rand.Rand) {
		p.operators = true
	}},
	{"sieges", "runs with faults that last for hours", "Amazon DynamoDB and SQS Service Level Agreements: they bound no single outage", 8, func(p *plan, _ *rand.Rand) {
		p.sieges, p.aim = true, aim{tasks: true}
	}},
	{"fields", "runs in which a build stores fields that the old build of the same version does not know", "of the runtime's own: ADR 52", 8, func(p *plan, _ *rand.Rand) {
		p.fields = true
	}},
	{"hung sockets", "runs in which calls are never answered", "AWS SDK for Go v2 Developer Guide, \"Timeouts\": a request has none unless it is given one", 8, func(p *plan, rng *rand.Rand) {
		p.hangs, p.attemptTimeout = true, anyOf(rng, 0, 2*time.Second, 5*time.Second)
	}},
}

// drawStrains draws the strains of a run. Each strain has its own random numbers: a new strain changes only the runs
// that have it.
func (p *plan) drawStrains(seed uint64) {
	forced := regexp.MustCompile(*simulateStrain)
	for _, one := range strains {
		rng := rand.New(rand.NewPCG(seed, digestOf(one.kind)))
		has := one.oneIn > 0 && rng.IntN(one.oneIn) == 0
		if *simulateStrain != "" {
			has = forced.MatchString(one.kind)
		}
		if has {
			p.strains = append(p.strains, one.kind)
			one.draw(p, rng)
		}
	}
}

// strainFlag returns the variable of `make simulate` that a repeated run needs besides its seed; empty if it needs
// none.
func (s *simulation) strainFlag() string {
	if *simulateStrain == "" {
		return ""
	}
	return " STRAIN='" + *simulateStrain + "'"
}
