package dynamo

import (
	"iter"
	"math"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// PageBytesMax is the maximum size of a page of Query or Scan (DynamoDB Developer Guide, "Querying tables").
const PageBytesMax = 1 << 20

// pageRequest holds the parameters that Query and Scan share.
type pageRequest struct {
	TableName                 *string
	IndexName                 *string
	ConsistentRead            bool
	ExclusiveStartKey         attribute.Map
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues attribute.Map
	FilterExpression          *string
	Limit                     *int
	ProjectionExpression      *string
	ReturnConsumedCapacity    string
	Select                    string
}

// pageAnswer is the answer to Query and Scan.
type pageAnswer struct {
	Items            *[]attribute.Map `json:",omitempty"`
	Count            int
	ScannedCount     int
	LastEvaluatedKey attribute.Map     `json:",omitempty"`
	ConsumedCapacity *consumedCapacity `json:",omitempty"`
}

// source is the table or index that a page is read from.
type source struct {
	table *table
	// index is nil for the table itself.
	index  *index
	schema keySchema
	items  *ordered.Map[attribute.Map]
}

// source returns the table or index of the request.
func (r *pageRequest) source(t *table) (*source, *wire.Error) {
	if r.IndexName == nil {
		return &source{table: t, schema: t.schema, items: &t.items}, nil
	}
	for _, x := range t.indexes {
		if x.name != *r.IndexName {
			continue
		}
		if r.ConsistentRead {
			return nil, validation("Consistent reads are not supported on global secondary indexes")
		}
		if r.Select == "ALL_ATTRIBUTES" && x.projected != nil {
			return nil, invalidParameter("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", x.name)
		}
		return &source{table: t, index: x, schema: x.schema, items: &x.entries}, nil
	}
	return nil, validation("The table does not have the specified index: %s", *r.IndexName)
}

// keyOf returns the key that identifies an item in a page: the table's key and, for an index, also the index's key.
func (s *source) keyOf(item attribute.Map) attribute.Map {
	key := s.table.schema.keyOf(item)
	if s.index != nil {
		key = attribute.NewMap(append(key, s.schema.keyOf(item)...)...)
	}
	return key
}

// startAfter returns the storage key of an ExclusiveStartKey. The item need not exist.
func (s *source) startAfter(start attribute.Map) (string, *wire.Error) {
	names := 0
	for _, field := range start {
		if s.table.schema.has(field.Name) || s.schema.has(field.Name) {
			names++
		}
	}
	if names != len(start) || s.table.schema.checkItem(start) != nil || s.schema.checkItem(start) != nil {
		return "", validation("The provided starting key is invalid: The provided key element does not match the schema")
	}
	key := string(s.table.schema.storageKey(start))
	if s.index != nil {
		key = string(s.schema.storageKey(start)) + key
	}
	return key, nil
}

// keyRange is the range of storage keys from begin (inclusive) to end (exclusive). An empty end means no bound.
type keyRange struct{ begin, end string }

func (r keyRange) contains(key string) bool {
	return r.begin <= key && (r.end == "" || key < r.end)
}

// walk yields the items of a range in either direction. If `after` is set, it yields only the items after that storage
// key. Walking backwards requires a range with an end.
func (s *source) walk(keys keyRange, after string, backwards bool) iter.Seq2[string, attribute.Map] {
	if after != "" && backwards {
		keys.end = min(keys.end, after)
	} else if after != "" {
		keys.begin = max(keys.begin, after+"\x00") // the smallest key after the key `after`
	}
	walk := s.items.From(keys.begin)
	if backwards {
		walk = s.items.Before(keys.end)
	}
	return func(yield func(string, attribute.Map) bool) {
		for key, item := range walk {
			if !keys.contains(key) || !yield(key, item) {
				return
			}
		}
	}
}

// pageReader reads one page.
type pageReader struct {
	source     *source
	limit      int
	filter     *expression.Condition
	projection *expression.Projection
	countOnly  bool
	consistent bool
	returned   string
}

// check validates the parameters that Query and Scan share, except expressions and keys.
func (r *pageRequest) check() *wire.Error {
	if failed := checkReturnConsumedCapacity(r.ReturnConsumedCapacity); failed != nil {
		return failed
	}
	if failed := checkEnum("select", r.Select, "SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"); failed != nil {
		return failed
	}
	if r.Limit != nil {
		if failed := checkRange("limit", *r.Limit, 1, math.MaxInt32); failed != nil {
			return failed
		}
	}
	switch {
	case r.Select == "ALL_PROJECTED_ATTRIBUTES" && r.IndexName == nil:
		return invalidParameter("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	case r.Select == "SPECIFIC_ATTRIBUTES" && r.ProjectionExpression == nil:
		return invalidParameter("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case r.ProjectionExpression != nil && r.Select != "" && r.Select != "SPECIFIC_ATTRIBUTES":
		return invalidParameter("Cannot specify the ProjectionExpression when choosing to get %s", r.Select)
	}
	return nil
}

// newReader returns the reader of a page. Call it only if the expressions are valid.
func (r *pageRequest) newReader(s *source, filter *expression.Condition, projection *expression.Projection) (*pageReader, *wire.Error) {
	reader := &pageReader{
		source: s, limit: math.MaxInt, filter: filter, projection: projection,
		countOnly: r.Select == "COUNT", consistent: r.ConsistentRead, returned: r.ReturnConsumedCapacity,
	}
	if r.Limit != nil {
		reader.limit = *r.Limit
	}
	if filter != nil {
		if failed := s.table.checkPaths(filter.Paths()); failed != nil {
			return nil, failed
		}
	}
	if projection == nil {
		return reader, nil
	}
	if s.index != nil && s.index.projected != nil {
		for _, path := range projection.Paths() {
			if s.index.project(attribute.Map{{Name: path[0].Name}}) == nil {
				return nil, invalidParameter("Global secondary index %s does not project [%s]", s.index.name, path[0].Name)
			}
		}
	}
	return reader, s.table.checkPaths(projection.Paths())
}

// read reads a page. The page ends once it has read Limit items or 1 MB of items, both counted before filter and
// projection. LastEvaluatedKey is then the key of the last item read, even if no items follow.
func (p *pageReader) read(walk iter.Seq2[string, attribute.Map]) pageAnswer {
	items := []attribute.Map{}
	answer := pageAnswer{}
	bytes := 0
	for _, item := range walk {
		answer.ScannedCount++
		bytes += item.Size()
		if p.filter == nil || p.filter.Matches(item) {
			answer.Count++
			kept := item
			if p.projection != nil {
				kept = p.projection.Apply(item)
			}
			items = append(items, kept)
		}
		if answer.ScannedCount == p.limit || bytes >= PageBytesMax {
			answer.LastEvaluatedKey = p.source.keyOf(item)
			break
		}
	}
	if !p.countOnly {
		answer.Items = &items
	}
	var consumed capacity
	if units := readUnits(bytes, p.consistent); p.source.index == nil {
		consumed.table = units
	} else {
		consumed.addIndex(p.source.index.name, units)
	}
	answer.ConsumedCapacity = consumed.answer(p.returned, p.source.table.name)
	return answer
}
