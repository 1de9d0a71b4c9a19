package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// Charts that answer each other could send messages without end. So each message between instances belongs to a chain,
// which begins with an event from outside or with a timer. The chain counts its messages as hops, and Config.HopsMax
// limits them.
//
// Counting along one path is not enough: if each message leads to two more, 20 hops produce a million messages. So an
// instance counts like a Lamport clock. For each message of the chain that makes the instance send, the instance adds
// one to its count, or takes the message's count if that is higher. All other messages add nothing.
//
// Source: Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", 1978.

const (
	// chainKey is the key under which a message holds its chain.
	chainKey = "$chain"
	// hopsKeptMin is the smallest number of hops for which an instance stores a chain. Most chains are shorter.
	hopsKeptMin = 4
	// chainsMax is how many chains an instance remembers.
	chainsMax = 8
	// viaMax limits Chain.Via, the last senders that a message of a long chain names.
	viaMax = 8
)

// errCycle is wrapped by the reason for parking a message whose chain is too long.
var errCycle = errors.New("endless cycle of messages")

// chainFrom returns a new chain.
func chainFrom(id string) instances.Chain {
	origin := sha256.Sum256([]byte(id))
	return instances.Chain{Origin: hex.EncodeToString(origin[:6])}
}

// chainIn returns the chain that a message carries. ok is false for messages from outside and for timers.
func chainIn(body string) (chain instances.Chain, ok bool) {
	var form struct {
		Chain instances.Chain `json:"$chain"`
	}
	if !strings.Contains(body, chainKey) || json.Unmarshal([]byte(body), &form) != nil {
		return chain, false
	}
	return form.Chain, form.Chain.Origin != "" && form.Chain.Hops > 0
}

// chainOf returns the chain of a delivery, with the delivery as its last message.
func (t *turn) chainOf(d Delivery) instances.Chain {
	chain, ok := chainIn(d.Body)
	if !ok {
		return chainFrom(d.MessageID)
	}
	if known, ok := find(t.draft.Record.Chains, func(c *instances.Chain) bool { return c.Origin == chain.Origin }); ok {
		chain.Hops = max(chain.Hops, known.Hops+1)
	}
	return chain
}

// keepChain records the chain of the current message and its hops. The caller is about to send because of this message.
func (t *turn) keepChain() {
	if t.chain.Hops < hopsKeptMin {
		return
	}
	others := without(t.draft.Record.Chains, func(c instances.Chain) bool { return c.Origin == t.chain.Origin })
	t.draft.Record.Chains = appended(others, instances.Chain{Origin: t.chain.Origin, Hops: t.chain.Hops}, chainsMax)
}

// nextHop returns the chain of the messages that the instance sends in response to a message of the given chain.
func (l *Loop) nextHop(chain instances.Chain, instance string) json.RawMessage {
	chain.Hops++
	if chain.Hops > l.config.HopsMax/2 {
		chain.Via = appended(chain.Via, instance, viaMax)
	}
	text, _ := json.Marshal(chain) // Strings and numbers always marshal.
	return text
}

// checkHops returns an error if the delivery's chain is too long. A message that stops a child ends a chain, so it is
// always applied.
func (t *turn) checkHops(event statechart.Event) error {
	if t.chain.Hops <= t.loop.config.HopsMax || event.Type == stopEvent {
		return nil
	}
	via := append(slices.Clip(t.chain.Via), t.draft.Record.Instance.String())
	return fmt.Errorf("%w: %d messages followed each other without a timer or an event from outside, the limit is %d (HopsMax); the last instances are %s; "+
		"stop one of them or correct its chart, then redrive the event", errCycle, t.chain.Hops, t.loop.config.HopsMax, strings.Join(via, " -> "))
}

// withChain adds a chain to a message, a JSON object with at least one key.
func withChain(body, chain json.RawMessage) json.RawMessage {
	if len(chain) == 0 {
		return body
	}
	return slices.Concat([]byte(`{"`+chainKey+`":`), chain, []byte(","), body[1:])
}

// withoutChain removes the chain from the body of a message. A parked message has none, so after a redrive it counts as
// an event from outside.
func withoutChain(body string) string {
	var keys map[string]json.RawMessage
	if !strings.Contains(body, chainKey) || json.Unmarshal([]byte(body), &keys) != nil || keys[chainKey] == nil {
		return body
	}
	delete(keys, chainKey)
	text, err := plainjson.Marshal(keys)
	if err != nil {
		return body
	}
	return string(text)
}
