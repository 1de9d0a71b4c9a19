package dynamo

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// SegmentsMax is the largest TotalSegments of a parallel scan.
const SegmentsMax = 1_000_000

type scanRequest struct {
	pageRequest
	Segment       *int
	TotalSegments *int
}

// scan reads a table or index, ordered by the hashes of its partition keys.
func (m *Model) scan(now time.Time, request *scanRequest) (any, *wire.Error) {
	if failed := request.check(); failed != nil {
		return nil, failed
	}
	keys, failed := request.segment()
	if failed != nil {
		return nil, failed
	}
	expressions, failed := newExpressions(request.ExpressionAttributeNames, request.ExpressionAttributeValues)
	if failed != nil {
		return nil, failed
	}
	filter := parse(expressions, "FilterExpression", request.FilterExpression, expression.ParseCondition)
	projection := parse(expressions, "ProjectionExpression", request.ProjectionExpression, expression.ParseProjection)
	if failed := expressions.finish(); failed != nil {
		return nil, failed
	}
	t, failed := m.table(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	s, failed := request.source(t)
	if failed != nil {
		return nil, failed
	}
	after := ""
	if request.ExclusiveStartKey != nil {
		if after, failed = s.startAfter(request.ExclusiveStartKey); failed != nil {
			return nil, failed
		}
		if !keys.contains(after) {
			return nil, validation("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d",
				*request.TotalSegments, *request.Segment)
		}
	}
	reader, failed := request.newReader(s, filter, projection)
	if failed != nil {
		return nil, failed
	}
	return reader.read(s.walk(keys, after, false)), nil
}

// segment returns the range of storage keys that the scan covers: everything, or one of TotalSegments equal parts of
// the hash range.
func (r *scanRequest) segment() (keyRange, *wire.Error) {
	if r.Segment == nil && r.TotalSegments == nil {
		return keyRange{}, nil
	}
	if r.TotalSegments == nil {
		return keyRange{}, validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	}
	if r.Segment == nil {
		return keyRange{}, validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	}
	if failed := checkRange("totalSegments", *r.TotalSegments, 1, SegmentsMax); failed != nil {
		return keyRange{}, failed
	}
	if failed := checkRange("segment", *r.Segment, 0, SegmentsMax-1); failed != nil {
		return keyRange{}, failed
	}
	if *r.Segment >= *r.TotalSegments {
		return keyRange{}, validation("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d",
			*r.Segment, *r.TotalSegments)
	}
	return keyRange{begin: hashBound(*r.Segment, *r.TotalSegments), end: hashBound(*r.Segment+1, *r.TotalSegments)}, nil
}

// hashBound returns the smallest hash of a segment, or "" for the segment after the last.
func hashBound(segment, total int) string {
	if segment == total {
		return ""
	}
	bound, _ := bits.Div64(uint64(segment), 0, uint64(total)) // segment × 2^64 / total
	return string(binary.BigEndian.AppendUint64(nil, bound))
}
