package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

type transactGetRequest struct {
	TransactItems          []transactGetItem
	ReturnConsumedCapacity string
}

type transactGetItem struct {
	Get *get
}

type transactGetAnswer struct {
	Responses        []itemResponse
	ConsumedCapacity []*consumedCapacity `json:",omitempty"`
}

// itemResponse holds an item, or nil if it does not exist.
type itemResponse struct {
	Item *attribute.Map `json:",omitempty"`
}

// transactGetItems reads items atomically.
func (m *Model) transactGetItems(now time.Time, request *transactGetRequest) (any, *wire.Error) {
	if failed := checkReturnConsumedCapacity(request.ReturnConsumedCapacity); failed != nil {
		return nil, failed
	}
	if failed := checkTransactItems(len(request.TransactItems)); failed != nil {
		return nil, failed
	}
	reads := make([]*read, len(request.TransactItems))
	reasons := make([]*wire.Error, len(reads))
	for i, item := range request.TransactItems {
		if item.Get == nil {
			return nil, missing("transactItems.member.get")
		}
		var failed *wire.Error
		if reads[i], failed = m.prepareGet(now, item.Get); failed != nil {
			return nil, failed
		}
		reasons[i] = reads[i].refused
	}
	if failed := canceled(reasons); failed != nil {
		return nil, failed
	}
	answer := transactGetAnswer{Responses: make([]itemResponse, len(reads))}
	var consumed transactCapacity
	seen := make(map[string]bool, len(reads))
	for i, r := range reads {
		key := r.table.name + "/" + string(r.table.schema.storageKey(r.key))
		if seen[key] {
			return nil, validation("Transaction request cannot include multiple operations on one item")
		}
		seen[key] = true
		item, bytes := r.perform()
		answer.Responses[i].Item = item
		consumed.of(r.table.name).table += readUnits(bytes, true)
	}
	answer.ConsumedCapacity = consumed.answers(request.ReturnConsumedCapacity)
	return answer, nil
}
