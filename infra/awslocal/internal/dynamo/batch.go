package dynamo

import (
	"maps"
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Limits of batches (DynamoDB API Reference, BatchGetItem and BatchWriteItem).
const (
	BatchGetKeysMax  = 100
	BatchGetBytesMax = 16 << 20
	BatchWriteMax    = 25
)

// Messages about batches.
const (
	duplicateKeys = "Provided list of item keys contains duplicates"
	tooManyItems  = "Too many items requested for the %s call"
	batchLength   = "Map value must satisfy constraint: [Member must have length less than or equal to %d, Member must have length greater than or equal to 1]"
)

type batchGetRequest struct {
	RequestItems           map[string]keysAndAttributes
	ReturnConsumedCapacity string
}

type keysAndAttributes struct {
	Keys                     []attribute.Map
	ConsistentRead           bool              `json:",omitempty"`
	ProjectionExpression     *string           `json:",omitempty"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`
}

type batchGetAnswer struct {
	Responses        map[string][]attribute.Map
	UnprocessedKeys  map[string]keysAndAttributes
	ConsumedCapacity []*consumedCapacity `json:",omitempty"`
}

// batchGetItem reads at most 16 MB of items and returns the remaining keys as unprocessed.
func (m *Model) batchGetItem(now time.Time, request *batchGetRequest) (any, *wire.Error) {
	if failed := checkReturnConsumedCapacity(request.ReturnConsumedCapacity); failed != nil {
		return nil, failed
	}
	if len(request.RequestItems) == 0 {
		return nil, missing("requestItems")
	}
	names := slices.Sorted(maps.Keys(request.RequestItems))
	reads := make(map[string][]*read, len(names))
	total := 0
	for _, name := range names {
		prepared, failed := m.prepareGets(now, name, request.RequestItems[name])
		if failed != nil {
			return nil, failed
		}
		reads[name] = prepared
		total += len(prepared)
	}
	if total > BatchGetKeysMax {
		return nil, validation(tooManyItems, "BatchGetItem")
	}
	answer := batchGetAnswer{Responses: make(map[string][]attribute.Map), UnprocessedKeys: make(map[string]keysAndAttributes)}
	budget := BatchGetBytesMax
	for _, name := range names {
		answer.add(name, request.RequestItems[name], reads[name], &budget, request.ReturnConsumedCapacity)
	}
	return answer, nil
}

// prepareGets validates the part of a batch for one table.
func (m *Model) prepareGets(now time.Time, name string, wanted keysAndAttributes) ([]*read, *wire.Error) {
	if len(wanted.Keys) == 0 {
		return nil, missing("requestItems." + name + ".member.keys")
	}
	var reads []*read
	seen := make(map[string]bool, len(wanted.Keys))
	for _, key := range wanted.Keys {
		r, failed := m.prepareGet(now, &get{
			TableName: &name, Key: key,
			ProjectionExpression: wanted.ProjectionExpression, ExpressionAttributeNames: wanted.ExpressionAttributeNames,
		})
		if failed != nil {
			return nil, failed
		}
		if r.refused != nil {
			return nil, r.refused
		}
		stored := string(r.table.schema.storageKey(key))
		if seen[stored] {
			return nil, validation(duplicateKeys)
		}
		seen[stored] = true
		reads = append(reads, r)
	}
	return reads, nil
}

// add performs the reads of one table until the budget, in bytes, is used up.
func (a *batchGetAnswer) add(name string, wanted keysAndAttributes, reads []*read, budget *int, returned string) {
	var consumed capacity
	items := []attribute.Map{}
	for i, r := range reads {
		item, bytes := r.perform()
		if *budget -= bytes; *budget < 0 {
			rest := wanted
			rest.Keys = wanted.Keys[i:]
			a.UnprocessedKeys[name] = rest
			break
		}
		consumed.table += readUnits(bytes, wanted.ConsistentRead)
		if item != nil {
			items = append(items, *item)
		}
	}
	a.Responses[name] = items
	if c := consumed.answer(returned, name); c != nil {
		a.ConsumedCapacity = append(a.ConsumedCapacity, c)
	}
}

type batchWriteRequest struct {
	RequestItems                map[string][]writeRequest
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

type writeRequest struct {
	PutRequest    *putRequest
	DeleteRequest *deleteRequest
}

type putRequest struct{ Item attribute.Map }

type deleteRequest struct{ Key attribute.Map }

type batchWriteAnswer struct {
	UnprocessedItems map[string][]writeRequest
	ConsumedCapacity []*consumedCapacity `json:",omitempty"`
}

// batchWriteItem validates all writes before it performs the first. It never leaves writes unprocessed.
func (m *Model) batchWriteItem(now time.Time, request *batchWriteRequest) (any, *wire.Error) {
	if failed := checkReturnConsumedCapacity(request.ReturnConsumedCapacity); failed != nil {
		return nil, failed
	}
	if failed := checkReturnItemCollectionMetrics(request.ReturnItemCollectionMetrics); failed != nil {
		return nil, failed
	}
	if len(request.RequestItems) == 0 {
		return nil, missing("requestItems")
	}
	names := slices.Sorted(maps.Keys(request.RequestItems))
	writes := make(map[string][]*write, len(names))
	total := 0
	for _, name := range names {
		prepared, failed := m.prepareWrites(now, name, request.RequestItems[name])
		if failed != nil {
			return nil, failed
		}
		writes[name] = prepared
		total += len(prepared)
	}
	if total > BatchWriteMax {
		return nil, validation(tooManyItems, "BatchWriteItem")
	}
	answer := batchWriteAnswer{UnprocessedItems: map[string][]writeRequest{}}
	for _, name := range names {
		var consumed capacity
		for _, w := range writes[name] {
			old, changed, failed := w.perform(now)
			if failed != nil {
				panic(failed) // cannot fail: the write is unconditional and already validated
			}
			consumed.addWrite(w.table, old, changed)
		}
		if c := consumed.answer(request.ReturnConsumedCapacity, name); c != nil {
			answer.ConsumedCapacity = append(answer.ConsumedCapacity, c)
		}
	}
	return answer, nil
}

// prepareWrites validates the part of a batch for one table.
func (m *Model) prepareWrites(now time.Time, name string, requests []writeRequest) ([]*write, *wire.Error) {
	if len(requests) == 0 || len(requests) > BatchWriteMax {
		return nil, constraint(name, "requestItems", batchLength, BatchWriteMax)
	}
	var writes []*write
	seen := make(map[string]bool, len(requests))
	for _, request := range requests {
		var w *write
		var failed *wire.Error
		switch table := (conditional{TableName: &name}); {
		case request.PutRequest != nil && request.DeleteRequest == nil:
			w, failed = m.preparePut(now, &put{conditional: table, Item: request.PutRequest.Item})
		case request.DeleteRequest != nil && request.PutRequest == nil:
			w, failed = m.prepareDelete(now, &deletion{conditional: table, Key: request.DeleteRequest.Key})
		default:
			failed = validation("Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest")
		}
		if failed != nil {
			return nil, failed
		}
		if w.refused != nil {
			return nil, w.refused
		}
		stored := string(w.table.schema.storageKey(w.key))
		if seen[stored] {
			return nil, validation(duplicateKeys)
		}
		seen[stored] = true
		writes = append(writes, w)
	}
	return writes, nil
}
