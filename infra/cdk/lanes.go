package cdk

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// MainLane is the name of the lane with the queue Settle.Queue. It equals instances.MainLane.
const MainLane = "main"

// Limits that apply to Props.Lanes and Props.LaneRules.
const (
	// LanesMax is the number of lanes besides the main lane. A dead-letter queue can name ten source queues (SQS API
	// Reference, "CreateQueue", RedriveAllowPolicy).
	LanesMax = 9
	// LaneNameCharactersMax is the runtime's limit for a lane's name.
	LaneNameCharactersMax = 32
	// queueNameCharactersMax is SQS's limit for a queue's name.
	queueNameCharactersMax = 80
	// laneWeightMax is the runtime's limit for a lane's weight in a rule.
	laneWeightMax = 1000
)

// Lane is a FIFO queue with an event source mapping of its own, in addition to the main queue. Both queues invoke the
// same function, the consumer. Instances of one lane do not wait for a backlog of another lane.
type Lane struct {
	// Name is part of the queue's name: NAME-LANE.fifo. It consists of words of a-z and 0-9 with single hyphens between
	// them. It has at most LaneNameCharactersMax characters, is neither main nor dlq, and does not end in -dlq.
	Name string
	// Concurrency is the maximum number of batches of this lane processed at once. ConsumerConcurrencyMin to
	// ConsumerConcurrencyMax; defaults to 50. Lambda refuses it together with Pollers.
	Concurrency int
	// Pollers keeps event pollers ready for this lane, for a fee, and replaces Concurrency. Off by default.
	Pollers Pollers
}

// id returns the prefix of the IDs of the lane's constructs.
func (l Lane) id() string { return "Lane" + pascal(l.Name) }

// suffix returns the suffix of the name of the lane's queue.
func (l Lane) suffix() string { return "-" + l.Name + ".fifo" }

var (
	laneName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// laneRule matches PATTERN=LANES or PATTERN=LANES/SPREAD. A pattern is a machine, or a machine and a prefix of the ID.
	laneRule = regexp.MustCompile(`^([^/=]+(?:/[^=]+\*)?)=([^/]+?)(?:/([0-9]+))?$`)
	// laneShare matches a lane of a rule, with its weight.
	laneShare = regexp.MustCompile(`^([^:]*)(?::([0-9]+))?$`)
)

// validateLanes checks Lanes, except the concurrency and the pollers, and LaneRules.
func (p Props) validateLanes() error {
	if len(p.Lanes) > LanesMax {
		return fmt.Errorf("cdk: expected at most %d lanes in Props.Lanes, because a dead-letter queue can have ten source queues, got %d", LanesMax, len(p.Lanes))
	}
	known := []string{MainLane}
	for i, lane := range p.Lanes {
		switch name := lane.Name; {
		case name == MainLane:
			return fmt.Errorf("cdk: expected no lane named main in Props.Lanes, because each stack has it: set Props.ConsumerConcurrency or Props.ConsumerPollers for it")
		case !laneName.MatchString(name) || len(name) > LaneNameCharactersMax:
			return fmt.Errorf("cdk: expected lanes in Props.Lanes to match %s and to have at most %d characters, got %q", laneName, LaneNameCharactersMax, name)
		case name == "dlq" || strings.HasSuffix(name, "-dlq"):
			return fmt.Errorf("cdk: expected lanes in Props.Lanes not to be named dlq or to end in -dlq, as dead-letter queues do, got %q", name)
		case slices.ContainsFunc(p.Lanes[:i], func(other Lane) bool { return other.id() == lane.id() }):
			return fmt.Errorf("cdk: expected lanes in Props.Lanes that differ by more than hyphens, got %q after another such lane", name)
		}
		known = append(known, lane.Name)
	}
	if p.LaneRules == nil {
		return nil
	}
	if len(p.Lanes) == 0 {
		return fmt.Errorf("cdk: expected Props.Lanes with Props.LaneRules, got no lanes")
	}
	if *awscdk.Token_IsUnresolved(p.LaneRules) {
		return nil
	}
	return validateLaneRules(*p.LaneRules, known)
}

// validateLaneRules accepts the same rules as the functions do (lanes.ParseRules). Importing that package would add the
// runtime's dependencies to this module.
func validateLaneRules(rules string, known []string) error {
	var patterns []string
	for rule := range strings.SplitSeq(rules, ",") {
		if rule = strings.TrimSpace(rule); rule == "" {
			continue
		}
		parts := laneRule.FindStringSubmatch(rule)
		if parts == nil {
			return fmt.Errorf("cdk: expected rules in Props.LaneRules such as signup=bulk, job/vip.*=priority or job=main:2|bulk, got %q", rule)
		}
		if slices.Contains(patterns, parts[1]) {
			return fmt.Errorf("cdk: expected one rule for each pattern in Props.LaneRules, got a second one: %q", rule)
		}
		patterns = append(patterns, parts[1])
		var lanes []string
		for text := range strings.SplitSeq(parts[2], "|") {
			share := laneShare.FindStringSubmatch(text)
			switch {
			case share == nil || share[2] != "" && !within(share[2], laneWeightMax):
				return fmt.Errorf("cdk: expected weights from 1 to %d in Props.LaneRules, got %q in %q", laneWeightMax, text, rule)
			case !slices.Contains(known, share[1]):
				return fmt.Errorf("cdk: expected one of the lanes %s in Props.LaneRules, got %q in %q", strings.Join(known, ", "), share[1], rule)
			case slices.Contains(lanes, share[1]):
				return fmt.Errorf("cdk: expected each lane once in a rule of Props.LaneRules, got %q twice in %q", share[1], rule)
			}
			lanes = append(lanes, share[1])
		}
		if parts[3] != "" && !within(parts[3], len(lanes)) {
			return fmt.Errorf("cdk: expected after the slash of a rule in Props.LaneRules a number from 1 to the number of its lanes, got %q in %q", parts[3], rule)
		}
	}
	return nil
}

// within reports whether the text is a number from 1 to most.
func within(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= most
}

// SetLanes sets Lanes, and ConsumerConcurrency or ConsumerPollers for the main lane, from a text such as
// "main:50 bulk:10 priority:2-20". The number after a lane is its maximum concurrency. A range is its minimum and
// maximum number of event pollers. A lane without a number has the default concurrency. The text must contain the main
// lane and at least one other lane. `make deploy LANES=` and `make deploy-cdk LANES=` use it.
func (p *Props) SetLanes(text string) error {
	hasMain := false
	var lanes []Lane
	for entry := range strings.FieldsSeq(text) {
		lane := Lane{}
		var size string
		var hasSize bool
		if lane.Name, size, hasSize = strings.Cut(entry, ":"); hasSize {
			var err error
			if least, most, isRange := strings.Cut(size, "-"); isRange {
				lane.Pollers, err = parsePollers(least, most)
			} else if lane.Concurrency, err = strconv.Atoi(size); lane.Concurrency == 0 {
				err = cmp.Or(err, strconv.ErrRange)
			}
			if err != nil {
				return fmt.Errorf("cdk: expected a lane such as bulk:10, with a concurrency, or bulk:2-20, with pollers, got %q", entry)
			}
		}
		if lane.Name != MainLane {
			lanes = append(lanes, lane)
			continue
		}
		if hasMain || p.ConsumerConcurrency != 0 || p.ConsumerPollers.on() {
			return fmt.Errorf("cdk: expected the size of the main lane once, got it again in %q", text)
		}
		hasMain, p.ConsumerConcurrency, p.ConsumerPollers = true, lane.Concurrency, lane.Pollers
	}
	if !hasMain || len(lanes) == 0 {
		return fmt.Errorf(`cdk: expected main and at least one other lane, such as "main:50 bulk:10", got %q`, text)
	}
	p.Lanes = lanes
	return nil
}

// parsePollers returns the pollers with the given numbers.
func parsePollers(least, most string) (Pollers, error) {
	minimum, err := strconv.Atoi(least)
	maximum, errMaximum := strconv.Atoi(most)
	if err = cmp.Or(err, errMaximum); err == nil && (minimum == 0 || maximum == 0) {
		err = strconv.ErrRange
	}
	return Pollers{Minimum: minimum, Maximum: maximum}, err
}

// checkLaneQueues rejects lanes whose queue name would be too long. It accepts a name that only CloudFormation knows.
func (s *Settle) checkLaneQueues() error {
	for _, lane := range s.props.Lanes {
		if queue := *s.name + lane.suffix(); !*awscdk.Token_IsUnresolved(s.name) && len(queue) > queueNameCharactersMax {
			return fmt.Errorf("cdk: expected queue names of at most %d characters, got %d, %q: set a shorter Props.Name, or rename the lane", queueNameCharactersMax, len(queue), queue)
		}
	}
	return nil
}

// addLanes adds the queues of the lanes, with the properties and the dead-letter queue of the main queue.
func (s *Settle) addLanes(main awssqs.QueueProps) {
	if len(s.props.Lanes) == 0 {
		return
	}
	sources := []*string{arn("sqs", *s.name+".fifo")}
	for _, lane := range s.props.Lanes {
		s.Lanes[lane.Name] = s.queue(lane.id()+"Queue", lane.suffix(), main)
		sources = append(sources, arn("sqs", *s.name+lane.suffix()))
	}
	allowRedrive(s.DeadLetterQueue, sources)
}

// feedLanes connects the queues of the lanes to the consumer.
func (s *Settle) feedLanes() {
	for _, lane := range s.props.Lanes {
		mapping := s.feed(lane.id()+"Mapping", Consumer, s.Lanes[lane.Name], s.props.ConsumerBatch, lane.Concurrency)
		if lane.Pollers.on() {
			lane.Pollers.provision(mapping)
		}
	}
}

// consumerBatches returns the maximum number of batches that the consumer processes at once, in all lanes.
func (s *Settle) consumerBatches() int {
	batches := s.props.scaling().batches()
	for _, lane := range s.props.Lanes {
		batches += lane.scaling().batches()
	}
	return batches
}

// setLanes sets the variables of the lanes, which each sender needs.
func (s *Settle) setLanes(env map[string]*string) {
	if len(s.props.Lanes) == 0 {
		return
	}
	env["SETTLE_LANES"] = s.laneList()
	if s.props.LaneRules != nil {
		env["SETTLE_LANE_RULES"] = s.props.LaneRules
	}
}

// laneList returns the lanes besides the main lane, as name=ARN pairs separated by commas.
func (s *Settle) laneList() *string {
	var lanes []string
	for _, lane := range s.props.Lanes {
		lanes = append(lanes, lane.Name+"="+*s.Lanes[lane.Name].QueueArn())
	}
	return jsii.String(strings.Join(lanes, ","))
}

// usingLanes returns the permissions of a function on the queues of the lanes. The consumer uses
// them like the main queue. All other functions only send to them.
func (s *Settle) usingLanes(function string) []awsiam.PolicyStatement {
	calls := actions("sqs:SendMessage")
	if function == Consumer {
		calls = consume
	}
	var queues []*string
	for _, lane := range s.props.Lanes {
		queues = append(queues, s.Lanes[lane.Name].QueueArn())
	}
	return allowAny(calls, queues)
}
