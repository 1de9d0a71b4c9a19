// Package tour demonstrates Settle to new users. It plays five machines and their workflows end to end on a stack of
// their own, and prints each transition as it happens. Each scene ends with the path of the execution and the
// history of the instance.
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
	// Addr is the loopback address on which each of the two servers listens. If it is empty, they do not listen.
	Addr string
	// PickUpTimeout is how long a job waits for a runner before the next one is launched. Defaults to a second, the
	// shortest delay of a timer in SQS.
	PickUpTimeout time.Duration
	// UploadWindow is how long the files of a month are accepted. Defaults to 5 seconds.
	UploadWindow time.Duration
	// TimeLimit limits the whole tour. Defaults to 10 minutes. The tour takes 20 seconds on an idle machine.
	TimeLimit time.Duration
	// Style marks the output. Lines are folded at its width, but at 100 columns at most.
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

// Play plays the tour and writes it to `out`. Its error says which instance did not end as expected, or what the tour
// waited for at the time limit.
func Play(ctx context.Context, out io.Writer, host Host, config Config) error {
	config = config.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, config.TimeLimit, fmt.Errorf("%w, %v", errTimeLimit, config.TimeLimit))
	defer cancel()

	p := &player{ctx: ctx, config: config, secret: rand.Text()}
	p.out = &page{Writer: out, columns: min(cmp.Or(config.Style.Columns(), columnsMax), columnsMax)}
	p.seen = newSeen(console.NewHandler(p.out, config.Style, "   ").Brief())
	logger := slog.New(watch{p.seen.console, p.seen})
	callbacks := enrich.Callbacks{Key: []byte(rand.Text())}
	running, err := stack.Start(ctx, func(gatewayURL string) []durable.Machine {
		callbacks.Base = gatewayURL
		return host(logger, machines.Settings{
			EnrichCallbacks: callbacks,
			Job:             job.Config{PickUpTimeout: config.PickUpTimeout},
			Upload:          upload.Config{Window: config.UploadWindow},
		})
	}, stack.Config{
		AWSAddr: config.Addr, HTTPAddr: config.Addr, Logger: logger, Committed: p.seen.committed,
		Webhooks:  map[string]gateway.Webhook{webhook.Name: webhook.GitHub(gateway.Secrets{Current: []byte(p.secret)})},
		Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "enrich", Verify: callbacks.Verify, Read: enrich.ReadCallback}},
	})
	if err != nil {
		return err
	}
	p.stack = running
	return errors.Join(try(p.play), running.Close())
}

// player plays one tour.
type player struct {
	ctx    context.Context
	out    *page
	config Config
	stack  *stack.Stack
	seen   *seen
	secret string
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
	p.pickedUp()
	p.neverPickedUp()
	p.signUp()
	p.calledBack()
	p.inTime()
	p.late()
	p.moreEnds()
	p.uploaded()
	p.showItem()
	p.say("\n%s", bold(fmt.Sprintf("All %d ended as expected, after %.1f s.", len(p.ends), time.Since(started).Seconds())))
	for _, ended := range p.ends {
		p.say("   %-20s %s", ended.instance, p.config.Style.State(ended.states))
	}
	p.say("\nThe charts are in machines, the workflows in infra/workflows. Try settle graph to see a chart, and")
	p.say("settle dev to run this stack until you stop it.")
}

// failure is the value with which check panics, to end the tour.
type failure struct{ error }

// `try` calls `play`. If check ends `play` with an error, try returns the error.
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
