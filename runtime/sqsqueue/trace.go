package sqsqueue

import (
	"context"
	"regexp"
	"sync"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/tracing"
)

// AttrTraceparent is the message attribute that contains the trace of a message, in the format of W3C Trace Context. A
// producer may set it.
const AttrTraceparent = "traceparent"

// attrAWSTraceHeader is the system attribute that contains X-Ray's trace header.
const attrAWSTraceHeader = string(types.MessageSystemAttributeNameForSendsAWSTraceHeader)

const (
	// traceparentBytes is the length of a traceparent of version 00.
	traceparentBytes = 55
	// awsTraceHeaderBytesMax is longer than any trace header of X-Ray.
	awsTraceHeaderBytesMax = 512
)

// traceOf returns the trace of a message. It ignores an invalid trace, which is no reason to refuse an event.
func traceOf(message events.SQSMessage) (trace tracing.Trace) {
	if parent := message.MessageAttributes[AttrTraceparent].StringValue; parent != nil && len(*parent) == traceparentBytes {
		trace.Parent = *parent
	}
	if header := message.Attributes[attrAWSTraceHeader]; len(header) <= awsTraceHeaderBytesMax {
		trace.AWS = header
	}
	return trace
}

// traceAttributes returns the message attributes that propagate the trace of ctx. It returns nil if ctx has no trace,
// or if a message with a body of bodyBytes has no room for it. If the body is within olderMessageBytesMax, the message
// with its trace must be too, because the queue may still have that limit.
func traceAttributes(ctx context.Context, bodyBytes int) map[string]types.MessageAttributeValue {
	trace := tracing.Of(ctx)
	bytesMax := MessageBytesMax
	if bodyBytes <= olderMessageBytesMax {
		bytesMax = olderMessageBytesMax
	}
	if trace.Parent == "" || bodyBytes+len(AttrTraceparent)+len("String")+len(trace.Parent) > bytesMax {
		return nil
	}
	return map[string]types.MessageAttributeValue{AttrTraceparent: {DataType: aws.String("String"), StringValue: aws.String(trace.Parent)}}
}

// traceHeaderPattern matches X-Ray's trace headers (AWS X-Ray Developer Guide, "Tracing header"). It is compiled when
// the first header arrives, not at each cold start, because compiling takes up to three milliseconds.
var traceHeaderPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Self=[0-9A-Za-z-]{1,64};)?Root=1-[0-9a-f]{8}-[0-9a-f]{24}(;(Parent=[0-9a-f]{16}|Sampled=[01?]|Lineage=[0-9a-z:|,]{1,200}))*$`)
})

// traceSystemAttributes is traceAttributes for X-Ray.
func traceSystemAttributes(ctx context.Context) map[string]types.MessageSystemAttributeValue {
	trace := tracing.Of(ctx)
	if trace.AWS == "" || !traceHeaderPattern().MatchString(trace.AWS) {
		return nil // SQS would refuse the message
	}
	return map[string]types.MessageSystemAttributeValue{attrAWSTraceHeader: {DataType: aws.String("String"), StringValue: aws.String(trace.AWS)}}
}
