package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// consolePort is the default port of settle console, the next one after the ports of settle dev.
const consolePort = "7390"

type consoleCommand struct {
	tableFlags
	DeadLetterQueue string        `name:"dead-letter-queue" default:"settle-dlq.fifo" env:"SETTLE_DEAD_LETTER_QUEUE_URL" placeholder:"NAME|URL" help:"The dead-letter queue (${default}). Without permission for it, the console shows no parked events."`
	Queue           string        `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue to which --write sends events (${default})."`
	Write           bool          `help:"Let the console send events, redrive and drop parked ones, and change instances. Without it, the console only reads."`
	Port            uint16        `default:"${console_port}" help:"The port of the console, on 127.0.0.1; 0 picks a free one (${default})."`
	Every           time.Duration `default:"5s" help:"How often an open page reads the table, at least 250ms (${default})."`
	Open            bool          `help:"Open the console in your browser."`
}

// Run serves the console until ctx ends.
func (c *consoleCommand) Run(ctx context.Context, s *session) error {
	if c.Every < 250*time.Millisecond {
		return fmt.Errorf("%w: --every: expected at least 250ms, got %v", errUsage, c.Every)
	}
	machines, err := s.machines()
	if err != nil {
		return err
	}
	loaded, err := c.load(ctx, s)
	if err != nil {
		return err
	}
	store := dynamostore.NewIndexed(meteredClient{dynamodb.NewFromConfig(loaded), &s.read}, c.Table)
	config := console.Config{
		Machines: machines, Store: store, Now: s.Now,
		Title: c.title(loaded), Poll: c.Every, ReadUnits: func() float64 { return float64(s.read.halves.Load()) / 2 },
	}
	client := sqs.NewFromConfig(loaded)
	if url, err := sqsqueue.ResolveURL(ctx, client, c.DeadLetterQueue); err == nil {
		config.DeadLetters = deadletter.Queues{Client: client, URLs: []string{url}}
	} else {
		s.note("The console shows no parked events: %s", oneLine(c.explain(s, err)))
	}
	access := "It only reads"
	if c.Write {
		url, err := sqsqueue.ResolveURL(ctx, client, c.Queue)
		if err != nil {
			return c.explain(s, err)
		}
		by, err := identity(ctx, s, c.tableFlags, loaded)
		if err != nil {
			return c.explain(s, err)
		}
		config.Write, access = &console.Write{Queue: sqsqueue.New(client, url, ""), Store: store, By: by, Command: s.hint("send"), Context: ctx}, "It can send events, and change instances"
		if dead, shown := config.DeadLetters.(deadletter.Queues); shown {
			if err := checkQueues(dead.URLs[0], url, c.DeadLetterQueue, c.Queue); err != nil {
				return err
			}
			dead.Sources = map[string]string{dead.URLs[0]: url}
			config.Write.Parked = dead
		}
	}
	pages, err := console.New(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", loopback(c.Port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop the process that listens there, or choose another port with --port (0 picks a free one)", err)
	}
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String() + stack.ConsolePrefix + "/"
	if err := s.printf("The console is at %s. %s. Ctrl-C stops it.\n", address, access); err != nil {
		return errors.Join(err, listener.Close())
	}
	if c.Open {
		s.openConsole(address)
	}
	return serveUntil(ctx, listener, pages)
}

// openConsole opens the address in the browser. The desktop's command may wait until the browser ends.
func (s *session) openConsole(address string) {
	go func() {
		if err := s.show(address); err != nil {
			s.note("Cannot open a browser: %s", oneLine(err))
		}
	}()
}

// title says what the console is connected to.
func (c *consoleCommand) title(loaded aws.Config) string {
	if c.Local {
		return "settle dev · " + aws.ToString(loaded.BaseEndpoint) + " · table " + c.Table
	}
	title := []string{"aws", loaded.Region, "table " + c.Table}
	if !c.Write {
		title = append(title, "read only")
	}
	return strings.Join(title, " · ")
}

// serveUntil serves the handler until ctx ends. The streams of open pages then end too.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(closing) // At this point Serve has returned, and the process ends.
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the console has stopped: %w", err)
	}
	return nil
}
