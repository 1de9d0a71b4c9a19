// Package tour plays Settle to somebody who sees it for the first time: two charts, end to end
// on a stack of their own, each transition printed as it happens, and at the end the items as
// DynamoDB has them.
package tour

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/durable"
)

// Config tunes a tour. The zero value plays in process.
type Config struct {
	// AWSAddr and HTTPAddr are those of stack.Config.
	AWSAddr, HTTPAddr string
	// PickUpTimeout is how long a job waits for a runner before the next one is launched.
	// Defaults to a second, the shortest that SQS can delay a timer by.
	PickUpTimeout time.Duration
	// TimeLimit is how long the tour may take. Defaults to 15 seconds.
	TimeLimit time.Duration
	// Style marks what is printed.
	Style console.Style
}

func (c Config) withDefaults() Config {
	if c.PickUpTimeout == 0 {
		c.PickUpTimeout = time.Second
	}
	if c.TimeLimit == 0 {
		c.TimeLimit = 15 * time.Second
	}
	return c
}

// Host makes the machines that the tour plays with; their services log to logger.
type Host func(logger *slog.Logger, settings machines.Settings) []durable.Machine

// errTimeLimit is the cause of a tour that came to no end.
var errTimeLimit = errors.New("the time limit is reached")

// Play plays the tour to out. Its error says what did not end where it should, or what was
// waited for when the time was up.
func Play(ctx context.Context, out io.Writer, host Host, config Config) error {
	config = config.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, config.TimeLimit, fmt.Errorf("%w, %v", errTimeLimit, config.TimeLimit))
	defer cancel()

	watch := newWatch(console.NewHandler(out, config.Style, "   "))
	logger, secret := slog.New(watch), rand.Text()
	settings := machines.Settings{Job: job.Config{PickUpTimeout: config.PickUpTimeout}}
	running, err := stack.Start(ctx, host(logger, settings), stack.Config{
		AWSAddr: config.AWSAddr, HTTPAddr: config.HTTPAddr, GitHubSecret: secret, Logger: logger,
	})
	if err != nil {
		return err
	}
	p := &player{out: out, config: config, stack: running, seen: watch.seen, secret: secret}
	err = p.play(ctx)
	return errors.Join(err, running.Close())
}

// player plays one tour.
type player struct {
	out    io.Writer
	config Config
	stack  *stack.Stack
	seen   *seen
	secret string
}

func (p *player) play(ctx context.Context) error {
	started := time.Now()
	p.say("%s", p.config.Style.Bold("Settle on this machine"))
	p.say("SQS, DynamoDB, Scheduler, Step Functions and Lambda's poller run in this process; every call to them")
	p.say("goes over AWS's own wire protocols. No account, no container, nothing leaves this computer.")
	if url := p.stack.AWSURL(); url != "" {
		p.say("AWS is at %s, the gateway at %s.", url, p.stack.HTTPURL())
	}
	p.say("")
	p.say("Each transition is printed once it is stored. What a service did stands above the transitions")
	p.say("that it is stored with.")
	var ends []end
	for _, scene := range []func(context.Context) (end, error){p.pickedUp, p.neverPickedUp, p.signUp} {
		ended, err := scene(ctx)
		if err != nil {
			return err
		}
		ends = append(ends, ended)
	}
	if err := p.showItems(ctx, ends); err != nil {
		return err
	}
	p.say("\n%s", p.config.Style.Bold(fmt.Sprintf("All three ended where they should, after %.1f s.", time.Since(started).Seconds())))
	for _, ended := range ends {
		p.say("   %-20s %s", ended.instance, p.config.Style.State(ended.state))
	}
	p.say("\nThe charts are in machines/job and machines/signup. settle dev serves this stack until you stop it.")
	return nil
}

// end is where a scene's instance must be at last.
type end struct{ instance, state string }

// say prints one line of the story. It is told while the runtime waits for an event, so it
// never falls between the transitions of one.
func (p *player) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // A reader who has left changes nothing about the tour's end.
}

func (p *player) title(number int, title string, lines ...string) {
	p.say("\n%s", p.config.Style.Bold(fmt.Sprintf("%d. %s", number, title)))
	p.say("   %s\n", strings.Join(lines, "\n   "))
}
