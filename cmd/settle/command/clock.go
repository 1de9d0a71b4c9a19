package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

// The values of dev's --clock.
const (
	clockReal    = "real"
	clockVirtual = "virtual"
)

type clockCommand struct {
	Show    clockShowCommand    `cmd:"" default:"withargs" help:"Show the time of settle dev."`
	Advance clockAdvanceCommand `cmd:"" help:"Move the time of settle dev --clock virtual forward, and fire the timers on the way."`
}

type clockShowCommand struct{ outputFlag }

// Run prints the time.
func (c *clockShowCommand) Run(ctx context.Context, s *session) error {
	state, err := s.readClock(ctx)
	if err != nil {
		return err
	}
	return c.answer(s, state, func() error {
		kind := "the real time"
		if state.Clock == clockVirtual {
			kind = fmt.Sprintf("virtual, %v ahead of the real time", time.Duration(state.AheadSeconds)*time.Second)
		}
		return s.printf("%s (%s)\n", s.clockTime(state.Now), kind)
	})
}

type clockAdvanceCommand struct {
	By time.Duration `arg:"" name:"duration" help:"How far, such as 72h or 90m."`
	outputFlag
}

// Run moves the clock.
func (c *clockAdvanceCommand) Run(ctx context.Context, s *session) error {
	if c.By <= 0 || c.By > awslocal.AdvanceMax {
		return fmt.Errorf("%w: expected a duration of more than zero and at most %v, got %v", errUsage, awslocal.AdvanceMax, c.By)
	}
	progress := s.newTask("advancing the clock")
	defer progress.end()
	defer s.showClock(ctx, progress)()
	body, err := json.Marshal(awslocal.AdvanceRequest{Advance: c.By.String()})
	if err != nil {
		return err
	}
	state, err := s.callClock(ctx, http.MethodPost, body)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the clock runs on from where it was; see %s", errInterrupted, s.hint("clock"))
	}
	if err != nil {
		return err
	}
	return c.answer(s, state, func() error {
		due := "No work was due."
		if state.Steps != nil && *state.Steps > 0 {
			due = "Work was due at " + counted(*state.Steps, "time", "times") + " on the way."
		}
		text := fmt.Sprintf("The clock is at %s, %v ahead of the real time. %s\n", s.clockTime(state.Now), time.Duration(state.AheadSeconds)*time.Second, due)
		return s.printf("%s", s.style.Fold(text))
	})
}

// showClock shows the time of the clock as progress on a terminal, until the caller calls `stop`.
func (s *session) showClock(ctx context.Context, progress *progress) (stop func()) {
	if !s.StderrTTY {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	polling.Go(func() {
		for ctx.Err() == nil {
			if state, err := s.readClock(ctx); err == nil {
				progress.say("advancing the clock, now at " + s.clockTime(state.Now))
			}
			pause(ctx, progressEvery)
		}
	})
	return func() { cancel(); polling.Wait() }
}

// clockTime formats a time as other commands do.
func (s *session) clockTime(at time.Time) string {
	return at.In(s.Now().Location()).Format("2006-01-02 15:04:05 MST")
}

// readClock returns the clock of settle dev.
func (s *session) readClock(ctx context.Context) (awslocal.ClockState, error) {
	return s.callClock(ctx, http.MethodGet, nil)
}

// followClock sets Now to the clock of settle dev, so that ages and deadlines agree with it. If the endpoint has no
// virtual clock, Now stays as it is, and the command itself reports any problem with the endpoint.
func (s *session) followClock(ctx context.Context) {
	state, err := s.readClock(ctx)
	if err != nil || state.Clock != clockVirtual {
		return
	}
	ahead := state.Now.Sub(s.machineNow())
	s.Now = func() time.Time { return s.machineNow().Add(ahead) }
}

// clockBytesMax is the maximum size of an answer about the clock.
const clockBytesMax = 64 << 10

// callClock calls the clock of settle dev.
func (s *session) callClock(ctx context.Context, method string, body []byte) (state awslocal.ClockState, err error) {
	if err := s.checkClockEndpoint(); err != nil {
		return state, err
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.Endpoint, "/")+awslocal.ClockPath, bytes.NewReader(body))
	if err != nil {
		return state, fmt.Errorf("%w: AWS_ENDPOINT_URL: %w", errUsage, err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := s.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return state, fmt.Errorf("cannot connect to %s: start it with %s dev --clock %s; only its clock can be advanced, not the time of AWS", s.Endpoint, s.name(), clockVirtual)
	case err != nil:
		return state, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, clockBytesMax))
	switch {
	case err != nil:
		return state, fmt.Errorf("reading the clock of %s: %w", s.Endpoint, err)
	case response.StatusCode == http.StatusOK && json.Unmarshal(text, &state) == nil && state.Clock != "":
		return state, nil
	case response.StatusCode == http.StatusBadRequest && strings.HasPrefix(string(text), awslocal.ErrAdvance.Error()), response.StatusCode == http.StatusConflict, response.StatusCode == http.StatusServiceUnavailable:
		return state, s.explainClock(response.StatusCode, strings.TrimSpace(string(text)))
	case response.StatusCode == http.StatusForbidden:
		return state, errors.New(strings.TrimSpace(string(text)))
	default:
		return state, fmt.Errorf("%s has no clock that %s could show or advance: it answered %s; expected the AWS endpoint of %s dev in AWS_ENDPOINT_URL",
			s.Endpoint, s.name(), response.Status, s.name())
	}
}

// explainClock adds advice to the answer of settle dev.
func (s *session) explainClock(status int, text string) error {
	if status == http.StatusConflict && text == awslocal.ErrRealClock.Error() {
		return fmt.Errorf("%s: %s; start %s dev with --clock %s", s.Endpoint, text, s.name(), clockVirtual)
	}
	return fmt.Errorf("%s: %s", s.Endpoint, text)
}

// checkClockEndpoint refuses the endpoints of AWS.
func (s *session) checkClockEndpoint() error {
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil {
		return fmt.Errorf("%w: AWS_ENDPOINT_URL: %w", errUsage, err)
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws"} {
		if strings.HasSuffix(strings.ToLower(endpoint.Hostname()), domain) {
			return fmt.Errorf("%w: the time of AWS cannot be advanced: unset AWS_ENDPOINT_URL, or set it to the AWS endpoint of %s dev --clock %s, got %s", errUsage, s.name(), clockVirtual, s.Endpoint)
		}
	}
	return nil
}
