package dynamo

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Limits of transactions (DynamoDB Developer Guide, "Amazon DynamoDB Transactions: How it works").
const (
	TransactItemsMax = 100
	TransactBytesMax = 4 << 20
)

type transactWriteRequest struct {
	TransactItems               []transactWriteItem
	ClientRequestToken          *string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

type transactWriteItem struct {
	ConditionCheck *conditionCheck `json:",omitempty"`
	Put            *put            `json:",omitempty"`
	Delete         *deletion       `json:",omitempty"`
	Update         *update         `json:",omitempty"`
}

// conditionCheck is a condition on an item that the transaction does not change.
type conditionCheck struct {
	conditional
	Key attribute.Map
}

type transactWriteAnswer struct {
	ConsumedCapacity []*consumedCapacity `json:",omitempty"`
}

// transactWriteItems performs all of its writes. If one write fails, it performs none.
func (m *Model) transactWriteItems(now time.Time, request *transactWriteRequest) (any, *wire.Error) {
	if failed := checkReturnConsumedCapacity(request.ReturnConsumedCapacity); failed != nil {
		return nil, failed
	}
	if failed := checkReturnItemCollectionMetrics(request.ReturnItemCollectionMetrics); failed != nil {
		return nil, failed
	}
	if failed := checkTransactItems(len(request.TransactItems)); failed != nil {
		return nil, failed
	}
	repeated, failed := m.tokens.repeated(now, request)
	if failed != nil {
		return nil, failed
	}
	writes := make([]*write, len(request.TransactItems))
	for i, item := range request.TransactItems {
		if writes[i], failed = m.prepareTransactWrite(now, item); failed != nil {
			return nil, failed
		}
	}
	if failed := checkDistinctItems(writes); failed != nil {
		return nil, failed
	}
	if repeated {
		return transactWriteAnswer{repeatedCapacity(request.ReturnConsumedCapacity, writes)}, nil
	}
	consumed, failed := commit(now, writes)
	if failed != nil {
		return nil, failed
	}
	m.tokens.remember(now, request)
	return transactWriteAnswer{consumed.answers(request.ReturnConsumedCapacity)}, nil
}

func checkTransactItems(count int) *wire.Error {
	if count == 0 {
		return missing("transactItems")
	}
	if count > TransactItemsMax {
		return constraint(fmt.Sprint(count)+" items", "transactItems", "Member must have length less than or equal to %d", TransactItemsMax)
	}
	return nil
}

func (m *Model) prepareTransactWrite(now time.Time, item transactWriteItem) (*write, *wire.Error) {
	given := 0
	for _, present := range [...]bool{item.ConditionCheck != nil, item.Put != nil, item.Delete != nil, item.Update != nil} {
		if present {
			given++
		}
	}
	if given != 1 {
		return nil, validation("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	switch {
	case item.Put != nil:
		return m.preparePut(now, item.Put)
	case item.Delete != nil:
		return m.prepareDelete(now, item.Delete)
	case item.Update != nil:
		if item.Update.UpdateExpression == nil {
			return nil, missing("transactItems.member.update.updateExpression")
		}
		return m.prepareUpdate(now, item.Update)
	}
	if item.ConditionCheck.ConditionExpression == nil {
		return nil, missing("transactItems.member.conditionCheck.conditionExpression")
	}
	w, failed := m.prepareDelete(now, &deletion{conditional: item.ConditionCheck.conditional, Key: item.ConditionCheck.Key})
	if failed != nil {
		return nil, failed
	}
	w.checksOnly = true
	w.produce = func(old attribute.Map) (attribute.Map, *wire.Error) { return old, nil }
	return w, nil
}

// checkDistinctItems rejects several writes to the same item.
func checkDistinctItems(writes []*write) *wire.Error {
	seen := make(map[string]bool, len(writes))
	for _, w := range writes {
		if w.refused != nil {
			continue // A refused write has no key to compare. It cancels the transaction.
		}
		item := w.table.name + "/" + string(w.table.schema.storageKey(w.key))
		if seen[item] {
			return validation("Transaction request cannot include multiple operations on one item")
		}
		seen[item] = true
	}
	return nil
}

// commit evaluates all writes. If all evaluations succeed, it performs the writes.
func commit(now time.Time, writes []*write) (*transactCapacity, *wire.Error) {
	type images struct{ old, changed attribute.Map }
	evaluated := make([]images, len(writes))
	reasons := make([]*wire.Error, len(writes))
	bytes := 0
	for i, w := range writes {
		old, changed, failed := w.evaluate()
		evaluated[i], reasons[i] = images{old, changed}, failed
		bytes += changed.Size()
	}
	if failed := canceled(reasons); failed != nil {
		return nil, failed
	}
	if bytes > TransactBytesMax {
		return nil, validation("The aggregate size of the items in the transaction exceeds %d bytes: %d", TransactBytesMax, bytes)
	}
	var consumed transactCapacity
	for i, w := range writes {
		consumed.of(w.table.name).addWrite(w.table, evaluated[i].old, evaluated[i].changed)
		if !w.checksOnly {
			w.table.replace(now, evaluated[i].old, evaluated[i].changed)
		}
	}
	return &consumed, nil
}
