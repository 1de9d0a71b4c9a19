package command

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/load"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/infra/prices"
)

// benchReport is the JSON output. All fields are measured, except those in `computed`.
type benchReport struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Region is `local` for the stack of settle dev.
	Region        string           `json:"region"`
	Run           string           `json:"run"`
	Machine       string           `json:"machine"`
	Event         string           `json:"event"`
	Parameters    benchParameters  `json:"parameters"`
	Paced         pacedReport      `json:"paced"`
	One           measured         `json:"one_instance"`
	Many          measured         `json:"many_instances"`
	StepFunctions []workflowReport `json:"step_functions,omitempty"`
}

type benchParameters struct {
	EventsPerSecond int `json:"events_per_second"`
	Events          int `json:"events"`
	Instances       int `json:"instances"`
}

// measured is the result of a measurement.
type measured struct {
	Events    int   `json:"events"`
	Instances int   `json:"instances"`
	Ignored   int64 `json:"ignored_events"`
	// Seconds is the time from the first event in the queue to the last commit. Both timestamps are from AWS.
	Seconds float64 `json:"seconds"`
	// EventsPerSecond is 0 if the measurement took less than a millisecond, as in virtual time.
	EventsPerSecond float64 `json:"events_per_second"`
	// Writes counts commits and the writes that clear an outbox.
	Writes         int64   `json:"writes"`
	EventsPerWrite float64 `json:"events_per_write"`
	SendRequests   int     `json:"send_requests"`
	// ReadUnits is measured on the benchmark's reads. WriteUnits and IndexUnits are measured on the writes that end the
	// instances. Ending an instance changes the index, but clearing an outbox does not.
	ReadUnits  float64       `json:"read_units_per_read"`
	WriteUnits float64       `json:"write_units_per_write"`
	IndexUnits float64       `json:"index_write_units_per_turn"`
	Computed   benchComputed `json:"computed"`
}

// benchComputed has upper bounds, because the command cannot count the consumer's turns, reads and invocations.
type benchComputed struct {
	// Turns is the lower of the numbers of writes and events. Each turn makes at least one write and applies at least
	// one event.
	Turns int64 `json:"turns_max"`
	// FIFORequests assumes that each turn needs its own receive and delete.
	FIFORequests      float64 `json:"fifo_requests_per_event_max"`
	Reads             float64 `json:"reads_per_event_max"`
	Invocations       float64 `json:"invocations_per_event_max"`
	DollarsPerMillion float64 `json:"usd_per_million_events"`
}

// pacedReport is the result of the measurement that sends events at --rate.
type pacedReport struct {
	measured
	SentPerSecond float64 `json:"sent_per_second"`
	// EnqueueToCommit is the time from the scheduled time of an event to the last commit of its instance.
	EnqueueToCommit load.Summary `json:"enqueue_to_commit"`
	// SenderLag is how late the command sent the events. EnqueueToCommit includes it.
	SenderLag load.Summary `json:"sender_lag"`
	// ClockAheadMin and ClockAheadMax bound how far the clock of SQS is ahead of this machine's clock.
	ClockAheadMin int64 `json:"queue_clock_ahead_min_ms"`
	ClockAheadMax int64 `json:"queue_clock_ahead_max_ms"`
}

func (b *bench) newReport() benchReport {
	version, commit := buildVersion()
	return benchReport{
		Version: version + commit, At: b.session.Now().UTC().Truncate(time.Second), Region: b.region(), Run: b.run, Machine: b.machine, Event: b.event.Type,
		Parameters: benchParameters{b.flags.Rate, b.flags.Events, b.flags.Instances},
	}
}

// measured returns the result without the units and the computed values.
func (m *measurement) measured() measured {
	result := measured{Events: m.flags.Events, Instances: len(m.targets), Writes: m.writes(), SendRequests: m.requests}
	var first, last time.Time
	for _, t := range m.targets {
		result.Ignored += t.record.Ignored
		if created := t.record.CreatedAt; first.IsZero() || created.Before(first) {
			first = created
		}
		if t.record.UpdatedAt.After(last) {
			last = t.record.UpdatedAt
		}
	}
	if took := last.Sub(first); took >= time.Millisecond {
		result.Seconds, result.EventsPerSecond = rounded(took.Seconds(), 3), rounded(float64(result.Events)/took.Seconds(), 1)
	}
	if result.Writes > 0 {
		result.EventsPerWrite = rounded(float64(result.Events)/float64(result.Writes), 2)
	}
	return result
}

// compute sets the computed values. The units must be set.
func (r *measured) compute() {
	events := float64(r.Events)
	turns := min(r.Writes, int64(r.Events))
	each := float64(turns) / events
	r.ReadUnits, r.WriteUnits, r.IndexUnits = rounded(r.ReadUnits, 2), rounded(r.WriteUnits, 2), rounded(r.IndexUnits, 2)
	c := benchComputed{Turns: turns, FIFORequests: rounded(float64(r.SendRequests)/events+2*each, 3), Reads: rounded(each, 3), Invocations: rounded(each, 3)}
	c.DollarsPerMillion = rounded(c.FIFORequests*prices.MillionFIFORequests+
		each*r.ReadUnits*prices.MillionReadUnits+
		(float64(r.Writes)/events*r.WriteUnits+each*r.IndexUnits)*prices.MillionWriteUnits+
		each*prices.MillionConsumerInvocations, 2)
	r.Computed = c
}

// add adds the results that only a paced measurement has. All events must be applied.
func (r *pacedReport) add(m *measurement) {
	var latencies []time.Duration
	first, last := m.targets[0].scheduled, m.targets[0].sent
	ahead := [2]time.Duration{math.MinInt64, math.MaxInt64}
	for _, t := range m.targets {
		// The commit's timestamp is in whole milliseconds.
		latencies = append(latencies, t.record.UpdatedAt.Sub(t.scheduled.Truncate(time.Millisecond)))
		if t.sent.After(last) {
			last = t.sent
		}
		// SQS set CreatedAt between `sent` and `queued`, in whole milliseconds.
		ahead[0] = max(ahead[0], t.record.CreatedAt.Sub(t.queued))
		ahead[1] = min(ahead[1], t.record.CreatedAt.Add(time.Millisecond).Sub(t.sent))
	}
	r.EnqueueToCommit, r.SenderLag = load.Summarize(latencies), load.Summarize(m.lags)
	r.ClockAheadMin, r.ClockAheadMax = ahead[0].Milliseconds(), ahead[1].Milliseconds()
	interval := time.Second / time.Duration(m.flags.Rate)
	r.SentPerSecond = rounded(float64(len(m.targets))/(last.Sub(first)+interval).Seconds(), 1)
}

// lagWarned is the smallest sender lag that the report warns about.
const lagWarned = 100 * time.Millisecond

// write prints the report as text.
func (r benchReport) write(s *session) error {
	l, lag := r.Paced.EnqueueToCommit, r.Paced.SenderLag
	text := fmt.Sprintf("Run %s of %s, %s, %s\n\n", r.Run, r.Machine, r.Region, r.At.Format("2006-01-02 15:04:05 MST"))
	text += fmt.Sprintf("Enqueue to commit, %d events a second, an instance each:\n", r.Parameters.EventsPerSecond)
	text += fmt.Sprintf("p50 %d ms, p90 %d ms, p99 %d ms, longest %d ms; lag of the sender: p99 %d ms\n", l.P50, l.P90, l.P99, l.Max, lag.P99)
	if time.Duration(lag.P99)*time.Millisecond >= lagWarned {
		text += fmt.Sprintf("The sender did not keep its schedule, and sent %.1f events a second. The times include its lag: lower --rate.\n", r.Paced.SentPerSecond)
	}
	const skewed = "The clock of SQS is at least %d ms %s this machine's, so the times are too %s: set this machine's clock.\n"
	if least := r.Paced.ClockAheadMin; least > 0 {
		text += fmt.Sprintf(skewed, least, "ahead of", "long")
	}
	if most := r.Paced.ClockAheadMax; most < 0 {
		text += fmt.Sprintf(skewed, -most, "behind", "short")
	}
	if err := s.printf("%s\n", s.style.Fold(text)); err != nil {
		return err
	}
	table := view.NewTable(s.style, "EVENTS TO", "EVENTS/S", "EVENTS/WRITE", "UNITS/WRITE", "IGNORED", "$/MILLION")
	for _, row := range []struct {
		name string
		measured
	}{{"an instance each", r.Paced.measured}, {"one instance", r.One}, {counted(r.Many.Instances, "instance", "instances"), r.Many}} {
		speed := "-"
		if row.EventsPerSecond > 0 {
			speed = fmt.Sprintf("%.1f", row.EventsPerSecond)
		}
		table.Add(view.Bold(row.name), view.Plain(speed), view.Plain(fmt.Sprintf("%.2f", row.EventsPerWrite)), view.Plain(fmt.Sprintf("%.2f", row.WriteUnits)),
			view.Plain(fmt.Sprint(row.Ignored)), view.Plain(fmt.Sprintf("%.2f", row.Computed.DollarsPerMillion)))
	}
	if err := table.Write(s.Out); err != nil {
		return err
	}
	if err := writeWorkflows(s, r.StepFunctions); err != nil {
		return err
	}
	return s.printf("\n%s", s.style.Fold("The dollars are computed, and an upper bound: list prices of us-east-1, and an invocation, a receive and a delete for each turn. "+
		"Logs, services, timers and other effects are not included.\n"))
}

// The plan assumes these upper bounds for an event.
const (
	plannedWrites     = 3 // a commit, the clearing of its outbox, and a second service
	plannedWriteUnits = 6 // an item of 4 KB, and two entries of the index
	plannedPolls      = 10
)

// priceMax returns the estimated price of the benchmark in dollars.
func (b *bench) priceMax() float64 {
	c := b.flags
	turn := 2*prices.MillionFIFORequests + prices.MillionReadUnits + prices.MillionConsumerInvocations
	event := prices.MillionFIFORequests + turn + plannedWrites*plannedWriteUnits*prices.MillionWriteUnits
	// To end an instance, the command reads and writes once, and the consumer clears the outbox in a turn.
	instance := prices.MillionFIFORequests + turn + 2*plannedWriteUnits*prices.MillionWriteUnits + (1+plannedPolls)*prices.MillionReadUnits
	sum := 3*event*float64(c.Events) + instance*float64(c.Events+1+c.Instances)
	if c.StepFunctions != "" {
		sum += b.workflowsPriceMax()
	}
	return sum / 1e6
}

// roundUp rounds dollars up to cents.
func roundUp(dollars float64) float64 { return math.Ceil(dollars*100) / 100 }

// rounded rounds to a number of digits after the point.
func rounded(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}

// writeWorkflows prints the results of the workflows, if any.
func writeWorkflows(s *session, workflows []workflowReport) error {
	if len(workflows) == 0 {
		return nil
	}
	if err := s.printf("\n"); err != nil {
		return err
	}
	table := view.NewTable(s.style, "WORKFLOW", "P50", "P90", "P99", "TRANSITIONS", "$/MILLION EXECUTIONS")
	isMeasured := func(w workflowReport) bool { return w.Unsupported == "" }
	for _, w := range workflows {
		if isMeasured(w) {
			ms := func(n int64) view.Cell { return view.Plain(fmt.Sprintf("%d ms", n)) }
			table.Add(view.Bold(string(w.Type)), ms(w.StartToEnd.P50), ms(w.StartToEnd.P90), ms(w.StartToEnd.P99), view.Plain(fmt.Sprint(w.Transitions)), view.Plain(fmt.Sprintf("%.2f", w.Computed.DollarsPerMillion)))
		}
	}
	if slices.ContainsFunc(workflows, isMeasured) {
		if err := table.Write(s.Out); err != nil {
			return err
		}
	}
	for _, w := range workflows {
		if !isMeasured(w) {
			if err := s.printf("%s", s.style.Fold(fmt.Sprintf("%s: the endpoint does not support it: %s\n", w.Type, w.Unsupported))); err != nil {
				return err
			}
		}
	}
	return nil
}
