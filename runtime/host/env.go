package host

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env reads environment variables and collects their problems. A variable that is unset or empty has the zero value.
// Callers need not check for problems, because the function does not start if there are any.
//
// No library replaces it: github.com/caarlos0/env and github.com/sethvargo/go-envconfig would only fetch the text. The
// checks and their messages would still be code of this package, one type for each kind of variable.
type Env struct {
	lookup   func(name string) (string, bool)
	required []string
	problems []error
}

// NewEnv returns an Env that reads variables with lookup.
func NewEnv(lookup func(name string) (string, bool)) *Env { return &Env{lookup: lookup} }

// Require marks variables as required. A required variable that is missing is reported when it is read.
func (r *Env) Require(names ...string) { r.required = append(r.required, names...) }

// Problem reports a problem with variables that were read.
func (r *Env) Problem(err error) { r.problems = append(r.problems, err) }

// err returns all problems found so far. It quotes no secret.
func (r *Env) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("reading the settings: %w", errors.Join(r.problems...))
}

// Wrong reports an invalid variable, with the expected and the actual value.
func (r *Env) Wrong(name, expected, got string) {
	r.problems = append(r.problems, fmt.Errorf("environment variable %s: expected %s, got %s", name, expected, got))
}

// Text returns the value unchanged. expected describes it in the report of a missing required variable.
func (r *Env) Text(name, expected string) string {
	value, _ := r.lookup(name)
	if value == "" && slices.Contains(r.required, name) {
		r.Wrong(name, expected, "nothing: set it")
	}
	return value
}

// OnOff returns true for on, and false for off or no value.
func (r *Env) OnOff(name string) bool {
	value := r.Text(name, "on or off")
	if value != "" && value != "on" && value != "off" {
		r.Wrong(name, "on or off", strconv.Quote(value))
	}
	return value == "on"
}

func (r *Env) queue(name, expected string) (address *url.URL, value string) {
	if value = r.Text(name, expected); value == "" {
		return nil, ""
	}
	address, err := url.Parse(value)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		r.Wrong(name, expected+", such as https://sqs.eu-central-1.amazonaws.com/123456789012/name", strconv.Quote(value))
		return nil, ""
	}
	return address, value
}

func (r *Env) fifo(name, expected string) string {
	address, value := r.queue(name, expected)
	if address != nil && !strings.HasSuffix(address.Path, ".fifo") {
		r.Wrong(name, expected+", which ends in .fifo", strconv.Quote(value))
	}
	return value
}

func (r *Env) standard(name, expected string) string {
	address, value := r.queue(name, expected)
	if address != nil && strings.HasSuffix(address.Path, ".fifo") {
		r.Wrong(name, expected+", because FIFO queues cannot delay single messages", strconv.Quote(value))
	}
	return value
}

func (r *Env) arn(name, service string) string {
	value := r.Text(name, "an ARN")
	if parts := strings.SplitN(value, ":", 6); value != "" && (len(parts) < 6 || parts[0] != "arn" || parts[2] != service) {
		r.Wrong(name, "an ARN of "+service, strconv.Quote(value))
	}
	return value
}

// standardARN reads the ARN of a standard queue. EventBridge Scheduler does not accept a FIFO dead-letter queue.
func (r *Env) standardARN(name string) string {
	value := r.arn(name, "sqs")
	if strings.HasSuffix(value, ".fifo") {
		r.Wrong(name, "the ARN of a standard queue", strconv.Quote(value))
	}
	return value
}

// workflows reads a list of name=ARN pairs of state machines.
func (r *Env) workflows(name string) map[string]string {
	value := r.Text(name, "workflows")
	if value == "" {
		return nil
	}
	arns := map[string]string{}
	for _, entry := range strings.Split(value, ",") {
		workflow, arn, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if parts := strings.Split(arn, ":"); workflow == "" || len(parts) < 7 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine" {
			r.Wrong(name, "workflows with their ARNs, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas", strconv.Quote(entry))
		}
		if _, twice := arns[workflow]; twice {
			r.Wrong(name, "each workflow once", strconv.Quote(workflow)+" twice")
		}
		arns[workflow] = arn
	}
	return arns
}

// Duration reads a positive duration such as 90s, 5m or 24h.
func (r *Env) Duration(name string) time.Duration {
	value := r.Text(name, "a duration")
	if value == "" {
		return 0
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration <= 0 {
		r.Wrong(name, "a positive duration such as 90s, 5m or 24h", strconv.Quote(value))
	}
	return duration
}

// Count reads a number that is at least 1.
func (r *Env) Count(name string) int { return r.count(name, "a number of at least 1", math.MaxInt) }

// countTo reads a whole number from 1 to largest.
func (r *Env) countTo(name string, largest int) int {
	return r.count(name, fmt.Sprintf("a whole number from 1 to %d, or no value for the default", largest), largest)
}

func (r *Env) count(name, expected string, largest int) int {
	value := r.Text(name, "a number")
	if value == "" {
		return 0
	}
	count, err := strconv.Atoi(value)
	if err != nil || count < 1 || count > largest {
		r.Wrong(name, expected, strconv.Quote(value))
	}
	return count
}

// Secret reads a secret with a minimum length. No error quotes it.
func (r *Env) Secret(name string, bytesMin int) []byte {
	value := r.Text(name, "a secret")
	if value == "" {
		return nil
	}
	if len(value) < bytesMin {
		r.Wrong(name, fmt.Sprintf("a secret of at least %d bytes", bytesMin), fmt.Sprintf("%d bytes", len(value)))
	}
	return []byte(value)
}

func (r *Env) level(name string) (level slog.Level) {
	if value := r.Text(name, "a level"); value != "" && level.UnmarshalText([]byte(value)) != nil {
		r.Wrong(name, "debug, info, warn or error", strconv.Quote(value))
	}
	return level
}

func (r *Env) endpoint(name string) *url.URL {
	value := r.Text(name, "an endpoint")
	if value == "" {
		return nil
	}
	address, err := url.Parse(value)
	if err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Scheme != "https" && address.Scheme != "http" {
		r.Wrong(name, "the URL of a collector for OTLP over HTTP, such as http://localhost:4318, with keys in "+TracesHeaders+" instead", "another value (not shown)")
		return nil
	}
	return address
}

// headers reads name=value pairs. The values may be percent-encoded. It quotes none of them, because they may contain keys.
func (r *Env) headers(name string) map[string]string {
	value := r.Text(name, "headers")
	if value == "" {
		return nil
	}
	headers := map[string]string{}
	for i, pair := range strings.Split(value, ",") {
		header, text, found := strings.Cut(strings.TrimSpace(pair), "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(text))
		if header = strings.TrimSpace(header); !found || header == "" || err != nil {
			r.Wrong(name, "headers such as api-key=value, separated by commas", fmt.Sprintf("an invalid header at position %d (not shown)", i+1))
			continue
		}
		headers[header] = decoded
	}
	return headers
}
