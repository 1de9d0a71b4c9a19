package dynamo

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// cancellationReason is the result of one item of a canceled transaction.
type cancellationReason struct {
	Code    string
	Message string `json:",omitempty"`
	Item    any    `json:",omitempty"`
}

// canceled returns the TransactionCanceledException for the failures of a transaction's items, or nil if no item
// failed. The code of items that did not fail is "None".
func canceled(failures []*wire.Error) *wire.Error {
	reasons := make([]cancellationReason, len(failures))
	codes := make([]string, len(failures))
	cancels := false
	for i, failed := range failures {
		reasons[i] = cancellationReason{Code: "None"}
		if failed != nil {
			cancels = true
			reasons[i] = cancellationReason{Code: cancellationCode(failed), Message: failed.Message, Item: failed.Members["Item"]}
		}
		codes[i] = reasons[i].Code
	}
	if !cancels {
		return nil
	}
	failed := wire.Errorf("TransactionCanceledException",
		"Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", strings.Join(codes, ", "))
	failed.Members = map[string]any{"CancellationReasons": reasons}
	return failed
}

// cancellationCode returns the code of a reason (DynamoDB API Reference, TransactionCanceledException).
func cancellationCode(failed *wire.Error) string {
	if failed.Code == "ConditionalCheckFailedException" {
		return "ConditionalCheckFailed"
	}
	return "ValidationError"
}

// transactFactor is the capacity cost of a transaction relative to plain reads and writes. It is 2 because DynamoDB
// prepares each item and then commits it.
const transactFactor = 2

// transactCapacity counts the units that a transaction consumes per table, before transactFactor.
type transactCapacity struct {
	tables map[string]*capacity
}

func (c *transactCapacity) of(table string) *capacity {
	if c.tables == nil {
		c.tables = make(map[string]*capacity)
	}
	if c.tables[table] == nil {
		c.tables[table] = &capacity{}
	}
	return c.tables[table]
}

func (c *transactCapacity) answers(returned string) []*consumedCapacity {
	var answers []*consumedCapacity
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		consumed := c.tables[name]
		consumed.table *= transactFactor
		for index := range consumed.indexes {
			consumed.indexes[index] *= transactFactor
		}
		if answer := consumed.answer(returned, name); answer != nil {
			answers = append(answers, answer)
		}
	}
	return answers
}

// TokenWindow is the time during which a repeated request with the same ClientRequestToken has no effect (DynamoDB API
// Reference, TransactWriteItems).
const TokenWindow = 10 * time.Minute

// tokens remembers the ClientRequestTokens of committed transactions.
type tokens struct {
	requests map[string]rememberedRequest
	// `order` holds the tokens in the order of their first use.
	order []string
	// changed is called with each token that is added or dropped.
	changed func(token string)
}

type rememberedRequest struct {
	at     time.Time
	digest [sha256.Size]byte
}

// repeated reports whether the same request was already made with its token. It rejects a different request with a
// used token.
func (t *tokens) repeated(now time.Time, request *transactWriteRequest) (bool, *wire.Error) {
	for len(t.order) > 0 && now.Sub(t.requests[t.order[0]].at) >= TokenWindow {
		delete(t.requests, t.order[0])
		t.changed(t.order[0])
		t.order = t.order[1:]
	}
	if request.ClientRequestToken == nil {
		return false, nil
	}
	if token := *request.ClientRequestToken; len(token) < 1 || len(token) > 36 {
		return false, constraint(token, "clientRequestToken", "Member must have length between 1 and 36")
	}
	remembered, taken := t.requests[*request.ClientRequestToken]
	if taken && remembered.digest != digest(request) {
		return false, wire.Errorf("IdempotentParameterMismatchException",
			"The request has other parameters than an earlier request with the ClientRequestToken %s", *request.ClientRequestToken)
	}
	return taken, nil
}

// remember stores the token of a committed request.
func (t *tokens) remember(now time.Time, request *transactWriteRequest) {
	if request.ClientRequestToken == nil {
		return
	}
	t.add(*request.ClientRequestToken, rememberedRequest{at: now, digest: digest(request)})
	t.changed(*request.ClientRequestToken)
}

func digest(request *transactWriteRequest) [sha256.Size]byte {
	canonical, err := json.Marshal(request.TransactItems)
	if err != nil {
		panic(err) // the items were decoded from JSON, so they always marshal
	}
	return sha256.Sum256(canonical)
}

// repeatedCapacity returns the cost of a repeated transaction, which reads the items that the first request wrote.
func repeatedCapacity(returned string, writes []*write) []*consumedCapacity {
	var consumed transactCapacity
	for _, w := range writes {
		if w.refused == nil {
			consumed.of(w.table.name).table += readUnits(w.table.get(w.key).Size(), true)
		}
	}
	return consumed.answers(returned)
}
