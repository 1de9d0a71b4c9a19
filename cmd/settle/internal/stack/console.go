package stack

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// ConsolePrefix is the path of the console on the gateway's port.
const ConsolePrefix = "/console"

// consolePoll is the interval at which an open page of the console polls.
const consolePoll = 250 * time.Millisecond

// withConsole returns a handler that serves the console below ConsolePrefix, and everything else with `api`.
func (s *Stack) withConsole(api http.Handler, queues queueURLs) (http.Handler, error) {
	title, send := []string{"settle dev"}, "settle send --local"
	if s.aws != nil {
		title, send = append(title, s.aws.URL()), "AWS_ENDPOINT_URL="+s.aws.URL()+" "+send
	}
	client := sqs.NewFromConfig(s.AWS())
	parked := deadletter.Queues{
		Client: client, URLs: []string{queues.deadLetter, queues.delayDeadLetter, queues.executionsDeadLetter},
		Sources: map[string]string{queues.deadLetter: queues.fifo, queues.delayDeadLetter: queues.delay, queues.executionsDeadLetter: queues.executions},
	}
	pages, err := console.New(console.Config{
		Machines: s.machines, Store: s.store, Title: strings.Join(append(title, "table "+Table), " · "), Prefix: ConsolePrefix,
		DeadLetters: parked,
		Write:       &console.Write{Queue: sqsqueue.New(client, queues.fifo, ""), Store: s.store, By: s.config.Operator, Parked: parked, Command: send, Context: s.closing},
		Poll:        consolePoll, AllowHosts: s.config.AllowHosts, Now: s.config.Now,
	})
	if err != nil {
		return nil, err
	}
	pages = s.untilClosed(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == ConsolePrefix || strings.HasPrefix(r.URL.Path, ConsolePrefix+"/") {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}), nil
}

// untilClosed returns a handler whose requests end when the stack closes. Otherwise, the streams of open pages would
// delay Close.
func (s *Stack) untilClosed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.closing, cancel)()
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
