package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// get holds the parameters that GetItem and transactional reads share.
type get struct {
	TableName                *string
	Key                      attribute.Map
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

type getItemRequest struct {
	get
	ConsistentRead         bool
	ReturnConsumedCapacity string
}

type getItemAnswer struct {
	// Item is nil if the item does not exist, and empty if the projection selects nothing.
	Item             *attribute.Map    `json:",omitempty"`
	ConsumedCapacity *consumedCapacity `json:",omitempty"`
}

// read is a validated request to read one item.
type read struct {
	table      *table
	key        attribute.Map
	projection *expression.Projection
	// refused is the error of a request that does not fit the table. See write.refused.
	refused *wire.Error
}

func (m *Model) prepareGet(now time.Time, request *get) (*read, *wire.Error) {
	if request.Key == nil {
		return nil, missing("key")
	}
	expressions, failed := newExpressions(request.ExpressionAttributeNames, nil)
	if failed != nil {
		return nil, failed
	}
	r := &read{key: request.Key}
	r.projection = parse(expressions, "ProjectionExpression", request.ProjectionExpression, expression.ParseProjection)
	if failed := expressions.finish(); failed != nil {
		return nil, failed
	}
	if r.table, failed = m.table(now, request.TableName); failed != nil {
		return nil, failed
	}
	r.refused = r.table.schema.checkKey(request.Key)
	if r.projection != nil && r.refused == nil {
		r.refused = r.table.checkPaths(r.projection.Paths())
	}
	return r, nil
}

// perform returns the projected item and the number of bytes read.
func (r *read) perform() (item *attribute.Map, bytes int) {
	stored := r.table.get(r.key)
	if stored == nil {
		return nil, 0
	}
	bytes = stored.Size()
	if r.projection != nil {
		stored = r.projection.Apply(stored)
	}
	return &stored, bytes
}

func (m *Model) getItem(now time.Time, request *getItemRequest) (any, *wire.Error) {
	if failed := checkReturnConsumedCapacity(request.ReturnConsumedCapacity); failed != nil {
		return nil, failed
	}
	r, failed := m.prepareGet(now, &request.get)
	if failed != nil {
		return nil, failed
	}
	if r.refused != nil {
		return nil, r.refused
	}
	item, bytes := r.perform()
	consumed := capacity{table: readUnits(bytes, request.ConsistentRead)}
	return getItemAnswer{Item: item, ConsumedCapacity: consumed.answer(request.ReturnConsumedCapacity, r.table.name)}, nil
}
