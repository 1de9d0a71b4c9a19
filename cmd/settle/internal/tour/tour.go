// Package tour demonstrates Settle to new users. It plays five machines and their workflows end to end on a stack of
// their own, and prints each transition as it happens. Each scene ends with the path of the execution and the
// history of the instance.
package tour

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
)

// Config tunes a tour. The zero value plays in process.
type Config struct {
	// AWSAddr and HTTPAddr are the addresses in stack.Config.
	AWSAddr, HTTPAddr string
	// PickUpTimeout is how long a job waits for a runner before the next one is launched. Defaults to a second, the
	// shortest delay of a timer in SQS.
	PickUpTimeout time.Duration
	// UploadWindow is how long the files of a month are accepted. Defaults to 5 seconds.
	UploadWindow time.Duration
	// TimeLimit limits the whole tour. Defaults to 10 minutes. The tour takes 20 seconds on an idle machine.
	TimeLimit time.Duration
	// Style marks the output. Lines are folded at its width, or at 100 columns if that is less.
	Style console.Style
}

func (c Config) withDefaults() Config {
	c.PickUpTimeout = cmp.Or(c.PickUpTimeout, time.Second)
	c.UploadWindow = cmp.Or(c.UploadWindow, 5*time.Second)
	c.TimeLimit = cmp.Or(c.TimeLimit, 10*time.Minute)
	return c
}

// Host returns the machines of the tour. Their services log to logger.
type Host func(logger *slog.Logger, settings machines.Settings) []durable.Machine

// errTimeLimit is the cause of a tour that timed out.
var errTimeLimit = errors.New("the time limit is reached")

// Play plays the tour to out. Its error says which instance did not end as expected, or what the tour waited for at
// the time limit.
func Play(ctx context.Context, out io.Writer, host Host, config Config) error {
	config = config.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, config.TimeLimit, fmt.Errorf("%w, %v", errTimeLimit, config.TimeLimit))
	defer cancel()

	out = page{out, min(cmp.Or(config.Style.Columns(), columnsMax), columnsMax)}
	watch := newWatch(console.NewHandler(out, config.Style, "   ").Brief())
	logger, secret := slog.New(watch), rand.Text()
	callbacks := enrich.Callbacks{Key: []byte(rand.Text())}
	running, err := stack.Start(ctx, func(gatewayURL string) []durable.Machine {
		callbacks.Base = gatewayURL
		return host(logger, machines.Settings{
			EnrichCallbacks: callbacks,
			Job:             job.Config{PickUpTimeout: config.PickUpTimeout},
			Upload:          upload.Config{Window: config.UploadWindow},
		})
	}, stack.Config{
		AWSAddr: config.AWSAddr, HTTPAddr: config.HTTPAddr, Webhooks: map[string]gateway.Webhook{webhook.Name: webhook.GitHub(gateway.Secrets{Current: []byte(secret)})}, Logger: logger, Committed: watch.seen.committed,
		Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback}},
	})
	if err != nil {
		return err
	}
	p := &player{ctx: ctx, out: out, config: config, stack: running, seen: watch.seen, secret: secret}
	err = try(p.play)
	return errors.Join(err, running.Close())
}

// player plays one tour.
type player struct {
	ctx    context.Context
	out    io.Writer
	config Config
	stack  *stack.Stack
	seen   *seen
	secret string
	// ways are the final states of the executions of the workflow pipeline.
	ways []string
	// scene is the number of the current scene, from 1.
	scene int
}

func (p *player) play() {
	started := time.Now()
	p.say("%s", p.config.Style.Bold("Settle on this machine"))
	p.say("SQS, DynamoDB, Scheduler, Step Functions and Lambda's poller run in this process. Every call to them")
	p.say("uses AWS's wire protocols. There is no account and no container, and nothing leaves this computer.")
	if url := p.stack.AWSURL(); url != "" {
		p.say("AWS is at %s, the gateway at %s.", url, p.stack.HTTPURL())
	}
	p.say("")
	p.say("Each transition is printed once it is stored. The output of a service appears above the transitions")
	p.say("stored with it. Unchanged parallel states and shared parents are left out. Each scene ends with the")
	p.say("path of the Step Functions execution and the history of the instance.")
	var ends []end
	for number, scene := range []func() []end{
		p.pickedUp, p.neverPickedUp, p.signUp, p.calledBack, p.inTime, p.late, p.moreEnds, p.uploaded,
	} {
		p.scene = number + 1
		ends = append(ends, scene()...)
	}
	p.showItems(ends)
	p.say("\n%s", p.config.Style.Bold(fmt.Sprintf("All %d ended as expected, after %.1f s.", len(ends), time.Since(started).Seconds())))
	for _, ended := range ends {
		p.say("   %-20s %s", ended.instance, p.config.Style.State(strings.Join(ended.states, ", ")))
	}
	p.say("\nThe charts are in machines, the workflows in infra/workflows. Try settle graph to see a chart, and")
	p.say("settle dev to run this stack until you stop it.")
}

// failure is the panic with which check ends a scene.
type failure struct{ error }

// try calls play, and returns the error with which check has ended it.
func try(play func()) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	play()
	return nil
}

// check ends the scene with the error, if there is one. doing says what failed.
func (p *player) check(err error, doing ...string) {
	if err != nil && len(doing) > 0 {
		err = fmt.Errorf("%s: %w", doing[0], err)
	}
	if err != nil {
		panic(failure{err})
	}
}

// json returns a value as JSON.
func (p *player) json(value any) []byte {
	text, err := json.Marshal(value)
	p.check(err)
	return text
}

// await waits for a transition, as seen.await does.
func (p *player) await(instance, event string, states ...string) {
	p.check(p.seen.await(p.ctx, instance, event, states...))
}

// end is the expected final state of an instance.
type end struct {
	instance string
	states   []string
}

// say prints a line of the story. Call it only while the runtime waits for an event, so that the line does not separate
// the transitions of one event.
func (p *player) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // The tour continues if the reader has left.
}

func (p *player) title(title string, lines ...string) {
	p.say("\n%s", p.config.Style.Bold(fmt.Sprintf("%d. %s", p.scene, title)))
	p.say("   %s\n", strings.Join(lines, "\n   "))
}

// columnsMax is the maximum width of the tour.
const columnsMax = 100

// page is a writer that folds lines. Each write must consist of whole lines.
type page struct {
	io.Writer
	columns int
}

// Write writes whole lines, folded.
func (p page) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, console.Fold(string(text), p.columns)); err != nil {
		return 0, err
	}
	return len(text), nil
}
