package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/client"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
)

// items returns the items of order/1.
func (w *world) items(c *client.Client) []string {
	w.t.Helper()
	time.Sleep(10 * time.Second) // The consumer applies all events.
	instance, err := c.Get(w.t.Context(), "order/1")
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := client.ContextOf[Order](instance)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.Items
}

func (w *world) send(c *client.Client, event any, options ...client.Option) client.Sent {
	w.t.Helper()
	sent, err := c.Send(w.t.Context(), "order/1", event, options...)
	if err != nil {
		w.t.Fatal(err)
	}
	return sent
}

// blame returns an event of the given size.
func blame(bytes int) json.RawMessage {
	const head, tail = `{"type":"BLAME","text":"`, `"}`
	return json.RawMessage(head + strings.Repeat("x", bytes-len(head)-len(tail)) + tail)
}

// TestSendWaitsForTheOutcomeOfItsEvent sends the event PLACE, which starts a service that takes three seconds.
func TestSendWaitsForTheOutcomeOfItsEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		c := w.client(nil)
		begun := time.Now()
		sent := w.send(c, Place{Item: "book"}, client.Until(client.Settled))
		if waited := time.Since(begun); waited < 3*time.Second || waited > 5*time.Second {
			t.Errorf("expected a wait of 3 to 5 seconds, got %v", waited)
		}
		o, err := client.ContextOf[Order](sent.After)
		if err != nil || strings.Join(sent.After.State, " ") != "placed" || !cmp.Equal(o, Order{Items: []string{"book"}}) {
			t.Errorf("expected the state placed with a book, got %v %+v, %v", sent.After.State, o, err)
		}
		if sent.Instance != "order/1" || sent.Type != "PLACE" || sent.MessageID == "" || !strings.HasPrefix(sent.ID, "event/") || sent.Ignored {
			t.Errorf("expected PLACE to order/1 with a message and a derived ID, got %+v", sent)
		}
		// BLAME has no transition.
		sent = w.send(c, client.Event{Type: "BLAME", Payload: Note{Text: "late"}}, client.Until(client.Settled))
		if !sent.Ignored {
			t.Errorf("expected BLAME to be ignored, got %+v", sent)
		}
		sent, err = c.SendByAlias(t.Context(), "shop/7", &Add{Item: "pen"}, client.Until(client.Settled))
		if err != nil || !strings.Contains(string(sent.After.Context), "pen") {
			t.Errorf("by alias: expected a pen, got %s, %v", sent.After.Context, err)
		}
		byAlias, err := c.GetByAlias(t.Context(), "shop/7")
		if err != nil || byAlias.Name != "order/1" {
			t.Errorf("expected order/1 under its alias, got %+v, %v", byAlias, err)
		}
		sent, err = c.Send(t.Context(), "order/1", client.Event{Type: "CANCEL"}, client.Distinct(), client.Until("lost"))
		if err != nil || sent.After.Status != "done" {
			t.Errorf("expected the tag lost at the end, got %+v, %v", sent, err)
		}
	})
}

// TestRetriesCountOnce loses the answers of SQS, and calls Send again.
func TestRetriesCountOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.send(c, Place{Item: "book"}, client.Until(client.Settled))
		for name, test := range map[string]struct {
			event   any
			options []client.Option
		}{
			"a derived ID": {Add{Item: "a derived ID"}, nil}, "an ID": {Add{Item: "an ID"}, []client.Option{client.ID("add-1")}},
			"raw JSON": {json.RawMessage(`{"type": "ADD", "item": "raw JSON"}`), nil},
			"an $id":   {json.RawMessage(`{"type": "ADD", "item": "an $id", "$id": "add-2"}`), nil},
		} {
			// The answer of SQS to the first call is lost. The second call follows at once, or after SQS's
			// deduplication interval of five minutes.
			for _, wait := range []time.Duration{0, 10 * time.Minute} {
				w.fail(func(operation string) awslocal.Fault { return awslocal.Fault{AnswerLost: operation == "SendMessage"} })
				if _, err := c.Send(t.Context(), "order/1", test.event, test.options...); !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("%s: expected ErrUnavailable for a lost answer, got %v", name, err)
				}
				w.fail(nil)
				time.Sleep(wait)
				w.send(c, test.event, test.options...)
			}
			count := 0
			for _, item := range w.items(c) {
				if item == name {
					count++
				}
			}
			if count != 1 {
				t.Errorf("%s: expected one event after four sends, got %d", name, count)
			}
		}
	})
}

func TestDistinctEventsAllCount(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.send(c, Place{Item: "book"})
		w.send(c, client.Event{Type: "REMIND"}, client.Distinct())
		w.send(c, client.Event{Type: "REMIND"}, client.Distinct())
		w.send(c, Add{Item: "pen"}, client.ID("pen-1"))
		w.send(c, Add{Item: "pen"}, client.ID("pen-2"))
		if got, want := strings.Join(w.items(c), " "), "book reminder reminder pen pen"; got != want {
			t.Errorf("expected %s, got %s", want, got)
		}
	})
}

// TestErrorsAreClassified causes each error once, and compares its class and its text.
func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		c, ctx := w.client(nil), t.Context()
		w.send(c, Place{Item: "book"}, client.Until(client.Settled))
		w.send(c, Add{Item: "pen"}, client.ID("pen"))
		send := func(id string, event any, options ...client.Option) func() error {
			return func() error { _, err := c.Send(ctx, id, event, options...); return err }
		}
		throttled := func(call func() error) func() error {
			return func() error {
				w.fail(func(string) awslocal.Fault { return awslocal.Fault{Throttled: true} })
				defer w.fail(nil)
				return call()
			}
		}
		get := func(id string) func() error { return func() error { _, err := c.Get(ctx, id); return err } }
		timeout := func(call func(context.Context) error) func() error {
			return func() error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return call(ctx)
			}
		}
		var gone *client.Client
		w.url = strings.Replace(w.url, "settle.fifo", "nosuch.fifo", 1)
		gone = w.client(nil)
		for name, test := range map[string]struct {
			call func() error
			want error
			text string
		}{
			"a payload of another machine":   {send("order/1", struct{ A int }{1}), client.ErrInvalid, "expected a payload of machine order, which declares ADD, BLAME, CANCEL, PLACE, PRAISE, REMIND, or an Event, got struct { A int }"},
			"no event":                       {send("order/1", nil), client.ErrInvalid, "got <nil>"},
			"a payload of two events":        {send("order/1", Note{}), client.ErrInvalid, "client_test.Note is the payload of BLAME and PRAISE: pass an Event with the type"},
			"no payload":                     {send("order/1", client.Event{Type: "CANCEL"}), client.ErrInvalid, "CANCEL has no payload, so a second CANCEL would count as a retry of the first: pass ID or Distinct"},
			"an undeclared event":            {send("order/1", client.Event{Type: "BUY"}, client.Distinct()), client.ErrInvalid, "chart order has no event"},
			"a wrong payload":                {send("order/1", json.RawMessage(`{"type": "PLACE", "item": 1}`)), client.ErrInvalid, "wrong payload"},
			"no JSON":                        {send("order/1", json.RawMessage(`PLACE`)), client.ErrInvalid, "not an event"},
			"an event of the runtime":        {send("order/1", json.RawMessage(`{"type": "settle.timer", "timer": "1"}`)), client.ErrInvalid, "reserved for the runtime"},
			"a payload that does not encode": {send("order/1", client.Event{Type: "ADD", Payload: 7}), client.ErrInvalid, "encoding ADD"},
			"the largest event":              {send("order/1", blame(producer.EventBytesMax), client.Distinct()), nil, ""},
			"an event that is too large":     {send("order/1", blame(producer.EventBytesMax+1), client.Distinct()), client.ErrInvalid, "expected an event of at most 1040384 bytes with its $id, got 1040385"},
			"an unknown machine":             {send("parcel/1", Place{}), client.ErrInvalid, "unknown machine"},
			"no name":                        {send("order", Place{}), client.ErrInvalid, "not the name of an instance"},
			"ID and Distinct":                {send("order/1", Place{}, client.ID("a"), client.Distinct()), client.ErrInvalid, "expected ID or Distinct, got both"},
			"a pointer to an Event":          {send("order/1", &client.Event{Type: "ADD"}), client.ErrInvalid, "got a pointer"},
			"an unknown tag":                 {send("order/1", Add{Item: "x"}, client.Until("paid")), client.ErrInvalid, `machine order has no tag "paid": expected one of settled, done, lost`},
			"an ID of another event":         {send("order/1", Add{Item: "ink"}, client.ID("pen")), client.ErrIDReused, "pen"},
			"a first event that starts none": {send("order/2", Add{Item: "pen"}), nil, ""},
			"throttled":                      {throttled(send("order/1", Add{Item: "ink"})), client.ErrUnavailable, "hrottl"},
			"throttled table":                {throttled(get("order/1")), client.ErrUnavailable, "ThrottlingException"},
			"no queue":                       {func() error { _, err := gone.Send(ctx, "order/1", Add{Item: "ink"}); return err }, client.ErrDenied, "no such queue"},
			"no instance":                    {get("order/3"), client.ErrNotFound, "order/3 has no record yet"},
			"no alias":                       {func() error { _, err := c.SendByAlias(ctx, "shop/8", Place{}); return err }, client.ErrUnknownAlias, "shop/8"},
			"no alias to get":                {func() error { _, err := c.GetByAlias(ctx, "shop/8"); return err }, client.ErrUnknownAlias, "shop/8"},
			"a wait for no instance": {timeout(func(ctx context.Context) error { _, err := c.Wait(ctx, "order/3", client.Settled); return err }),
				client.ErrNotFound, "waiting for order/3: no such instance: context deadline exceeded"},
			"a wait without an end": {timeout(func(ctx context.Context) error { _, err := c.Wait(ctx, "order/1", "lost"); return err }),
				context.DeadlineExceeded, "waiting for lost of order/1: context deadline exceeded"},
			"a wait for an unknown tag": {func() error { _, err := c.Wait(ctx, "order/1", "paid"); return err }, client.ErrInvalid, "has no tag"},
		} {
			err := test.call()
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: expected %v and %q, got %v", name, test.want, test.text, err)
			}
			if errors.Is(err, context.DeadlineExceeded) && errors.Is(err, client.ErrUnavailable) {
				t.Errorf("%s: expected a timeout not to be ErrUnavailable, got %v", name, err)
			}
		}
	})
}

// TestWaitAfterSendFails sends an event that is parked, and ends an instance that has not reached the condition.
func TestWaitAfterSendFails(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.send(c, Place{Item: "book"}, client.Until(client.Settled))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sent, err := c.Send(ctx, "order/4", Add{Item: "pen"}, client.Until(client.Settled)) // ADD starts no order, so the consumer parks it.
		if !errors.Is(err, context.DeadlineExceeded) || sent.MessageID == "" {
			t.Errorf("expected a timeout and the message, got %+v, %v", sent, err)
		}
		// Send another event with the ID of an earlier event, after the reservation of the ID has expired.
		w.send(c, Add{Item: "pen"}, client.ID("pen"))
		time.Sleep(20 * 24 * time.Hour) // The reservation expires, but the instance remembers the ID.
		sent, err = c.Send(t.Context(), "order/1", Add{Item: "ink"}, client.ID("pen"), client.Until(client.Settled))
		if !errors.Is(err, client.ErrParked) || !strings.Contains(err.Error(), "another event with the ID") || sent.MessageID == "" {
			t.Errorf("expected ErrParked with the reason, got %+v, %v", sent, err)
		}
		_, err = c.Send(t.Context(), "order/1", client.Event{Type: "CANCEL"}, client.ID("cancel"), client.Until(client.Done))
		if err != nil {
			t.Error(err)
		}
		_, err = c.Wait(t.Context(), "order/1", client.Settled)
		if err != nil {
			t.Errorf("expected an ended instance to be settled, got %v", err)
		}
	})
}

func TestListFindsInstances(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		inWorld(t, indexed, func(t *testing.T, w *world) {
			c := w.client(nil)
			for _, id := range []string{"order/1", "order/2", "order/3"} {
				if _, err := c.Send(t.Context(), id, Place{Item: id}, client.Until(client.Settled)); err != nil {
					t.Fatal(err)
				}
			}
			for _, filter := range []dynamostore.Filter{{}, {State: "placed"}, {Machine: "order", Consistent: true}} {
				found := map[string]string{}
				for instance, err := range c.List(t.Context(), filter) {
					if err != nil {
						t.Fatal(err)
					}
					o, err := client.ContextOf[Order](instance)
					if err != nil {
						t.Fatal(err)
					}
					found[instance.Name] = strings.Join(o.Items, " ")
				}
				if diff := cmp.Diff(map[string]string{"order/1": "order/1", "order/2": "order/2", "order/3": "order/3"}, found); diff != "" {
					t.Errorf("indexed %v, %+v: %s", indexed, filter, diff)
				}
			}
			w.fail(func(string) awslocal.Fault { return awslocal.Fault{Throttled: true} })
			count := 0
			for _, err := range c.List(t.Context(), dynamostore.Filter{}) {
				if count++; !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("throttled: expected ErrUnavailable, got %v", err)
				}
			}
			if count != 1 {
				t.Errorf("throttled: expected the list to end, got %d results", count)
			}
			w.fail(nil)
		})
	}
}

// limited is a machine with a limit on the age of a backlog.
type limited struct{ durable.Machine }

func (limited) BacklogAgeMax() time.Duration { return time.Minute }

func TestSendToAnInstanceThatIsBehindReturnsATypedError(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(t *testing.T, w *world) {
		w.send(w.client(nil), Place{Item: "book"}, client.Until(client.Settled))
		var err error
		if w.machines, err = durable.NewMachines(limited{order()}); err != nil {
			t.Fatal(err)
		}
		store := dynamostore.New(dynamodb.NewFromConfig(w.config("consumer")), "settle")
		record, err := store.Load(t.Context(), instances.ID{Machine: "order", ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		record.Revision, record.UpdatedAt, record.BacklogSince = record.Revision+1, time.Now(), time.Now().Add(-time.Hour)
		if err := store.Commit(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		_, err = w.client(nil).Send(t.Context(), "order/1", Add{Item: "pen"})
		var behind *client.BehindError
		if !errors.As(err, &behind) || !errors.Is(err, client.ErrBehind) || errors.Is(err, client.ErrUnavailable) || behind.RetryAfter != time.Minute {
			t.Fatalf("expected a BehindError for a minute, got %v", err)
		}
		time.Sleep(behind.RetryAfter)
		w.send(w.client(nil), Add{Item: "pen"}, client.Until(client.Settled))
	})
}
