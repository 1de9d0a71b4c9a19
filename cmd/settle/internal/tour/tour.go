// Package tour demonstrates Settle to new users. It plays five machines and their workflows end to end, and prints each
// transition as it happens. Each scene ends with the histories of its instances and the paths of their executions.
// [Play] plays the scenes once on its own stack. [Tour.Loop] repeats them on the caller's stack.
package tour

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// Config tunes a tour. With the zero value, the tour runs in process and does not listen.
type Config struct {
	// Addr is the loopback address on which both servers listen. If it is empty, they do not listen.
	Addr string
	// PickUpTimeout is how long a job waits for a runner before the next runner is launched. Defaults to a second, the
	// shortest timer delay in SQS.
	PickUpTimeout time.Duration
	// UploadWindow is how long the files of a month are accepted. Defaults to 5 seconds.
	UploadWindow time.Duration
	// TimeLimit limits the whole tour, or each scene of Loop. Defaults to 10 minutes. The tour takes 20 seconds on an idle
	// machine.
	TimeLimit time.Duration
	// Pause is the time before each event, so that a person can follow the instances. UploadWindow must be longer than six
	// pauses.
	Pause time.Duration
	// Secret signs the webhooks of GitHub. Play generates it.
	Secret string
	// Style marks the output. Lines are folded at the style's width or at 100 columns, whichever is smaller.
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

// Play plays the tour and writes it to `out`. The error says which instance did not end as expected, or what the tour
// was waiting for at the time limit.
func Play(ctx context.Context, out io.Writer, host Host, config Config) error {
	config.Secret = rand.Text()
	t := New(out, config)
	ctx, cancel := t.limited(ctx)
	defer cancel()

	running, err := t.start(ctx, host)
	if err != nil {
		return err
	}
	p := &player{Tour: t, ctx: ctx, stack: running, round: 1}
	return errors.Join(try(p.play), running.Close())
}

// start starts a stack with the machines that `host` returns.
func (t *Tour) start(ctx context.Context, host Host) (*stack.Stack, error) {
	logger := slog.New(t.Log())
	callbacks := enrich.Callbacks{Key: []byte(rand.Text())}
	return stack.Start(ctx, func(gatewayURL string) []durable.Machine {
		callbacks.Base = gatewayURL
		return host(logger, machines.Settings{
			EnrichCallbacks: callbacks,
			Job:             job.Config{PickUpTimeout: t.config.PickUpTimeout},
			Upload:          upload.Config{Window: t.config.UploadWindow},
		})
	}, stack.Config{
		AWSAddr: t.config.Addr, HTTPAddr: t.config.Addr, Logger: logger, Committed: t.Committed,
		Webhooks:  map[string]gateway.Webhook{webhook.Name: webhook.GitHub(gateway.Secrets{Current: []byte(t.config.Secret)})},
		Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback}},
	})
}

// Tour prints what happens on a stack, and plays the scenes there.
type Tour struct {
	config Config
	out    *page
	seen   *seen
}

// New returns a tour that writes to `out`. Its stack must use Log and Committed, and run the consumer in this process.
func New(out io.Writer, config Config) *Tour {
	t := &Tour{config: config.withDefaults()}
	t.out = &page{Writer: out, columns: min(cmp.Or(config.Style.Columns(), columnsMax), columnsMax)}
	t.seen = newSeen(console.NewHandler(t.out, config.Style, "   ").Brief())
	return t
}

// Log returns the log handler of the stack.
func (t *Tour) Log() slog.Handler { return watch{t.seen.console, t.seen} }

// Committed prints the transitions of a commit.
func (t *Tour) Committed(ctx context.Context, committed durable.Committed) {
	t.seen.committed(ctx, committed)
}

// Page is the best page of the console for watching the first scenes.
func (t *Tour) Page() string { return "machines/job" }

// limited returns a context that ends after the time limit.
func (t *Tour) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.config.TimeLimit, fmt.Errorf("%w, %v", errTimeLimit, t.config.TimeLimit))
}

// pausesBetween is the time between two rounds of Loop, in pauses.
const pausesBetween = 5

// Loop plays the scenes on the stack again and again until ctx ends, with new instances in each round. It prints the
// address of each instance's page. If a scene fails, for example because the user has stopped its instance, Loop prints
// the reason and continues with the next scene.
func (t *Tour) Loop(ctx context.Context, running *stack.Stack) {
	for round := 1; ctx.Err() == nil; round++ {
		p := &player{Tour: t, ctx: ctx, stack: running, round: round, pages: map[string]bool{}}
		for _, scene := range p.scenes() {
			if err := p.tryScene(scene); ctx.Err() != nil {
				return
			} else if err != nil {
				p.say("   %s", t.config.Style.Warning(fmt.Sprintf("The scene has ended early: %v.", err)))
			}
		}
		p.say("\n%s", t.config.Style.Bold("All scenes have been played. They begin again with new instances. Ctrl-C stops."))
		t.seen.forget()
		_ = try(func() { p.pause(pausesBetween * t.config.Pause) }) // pause fails only if ctx ends.
	}
}

// tryScene plays a scene within the time limit.
func (p *player) tryScene(scene func()) error {
	whole := p.ctx
	limited, cancel := p.limited(whole)
	defer cancel()
	p.ctx = limited
	defer func() { p.ctx = whole }()
	return try(scene)
}

// player plays the scenes once.
type player struct {
	*Tour
	ctx   context.Context
	stack *stack.Stack
	// round is the number of the round on this stack, from 1.
	round int
	// pages has each instance whose address in the console has been printed. If nil, no address is printed.
	pages map[string]bool
	// ends are the instances that have ended as expected.
	ends []end
	// ways are the final states of the executions of the workflow pipeline.
	ways []string
	// scene is the number of the current scene, from 1.
	scene int
}

func (p *player) play() {
	started, bold := time.Now(), p.config.Style.Bold
	p.say("%s", bold("Settle on this machine"))
	p.say("SQS, DynamoDB, Scheduler, Step Functions and Lambda's poller run in this process. Every call to them")
	p.say("uses AWS's wire protocols. There is no account and no container, and nothing leaves this computer.")
	if url := p.stack.AWSURL(); url != "" {
		p.say("AWS is at %s, the gateway at %s.", url, p.stack.HTTPURL())
	}
	p.say("")
	p.say("Each transition is printed once it is stored. The output of a service appears above the transitions")
	p.say("stored with it. Unchanged parallel states and shared parents are left out. Each scene ends with the")
	p.say("path of the Step Functions execution and the history of the instance.")
	for _, scene := range p.scenes() {
		scene()
	}
	p.showItem()
	p.say("\n%s", bold(fmt.Sprintf("All %d ended as expected, after %.1f s.", len(p.ends), time.Since(started).Seconds())))
	for _, ended := range p.ends {
		p.say("   %-20s %s", ended.instance, p.config.Style.State(ended.states))
	}
	p.say("\nThe charts are in machines, the workflows in infra/workflows. Try settle graph to see a chart, and")
	p.say("settle dev to run this stack until you stop it.")
}

// scenes returns the scenes in their order.
func (p *player) scenes() []func() {
	return []func(){p.pickedUp, p.neverPickedUp, p.signUp, p.calledBack, p.inTime, p.late, p.moreEnds, p.uploaded}
}

// again returns a variant of the name that no other round uses.
func (p *player) again(name string) string {
	if p.round == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, p.round)
}

// failure is the value that check panics with, to end the tour.
type failure struct{ error }

// try calls `play`. If check ends `play` with an error, try returns the error.
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

// check ends the tour with the error, if there is one. `doing` describes the failed operation.
func (p *player) check(err error, doing ...string) {
	if err != nil && len(doing) > 0 {
		err = fmt.Errorf("%s: %w", doing[0], err)
	}
	if err != nil {
		panic(failure{err})
	}
}
