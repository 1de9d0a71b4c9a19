package sqsqueue

import (
	"iter"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
)

// urlOf returns the URL of a delivery's queue, which may differ from the consumer's own queue. It takes account and
// name from the delivery's ARN. The Region is the same, because event source mappings only read queues of their own
// Region. Without an ARN, urlOf returns the consumer's own URL.
func urlOf(own, arn string) string {
	parts := strings.Split(arn, ":") // arn:aws:sqs:eu-central-1:123456789012:name
	path := strings.Split(own, "/")
	if len(parts) != 6 || len(path) < 2 {
		return own
	}
	copy(path[len(path)-2:], parts[4:])
	return strings.Join(path, "/")
}

// chunks splits the deliveries, in order, into groups of at most n from one queue.
func chunks(deliveries []durable.Delivery, n int) iter.Seq[[]durable.Delivery] {
	return func(yield func([]durable.Delivery) bool) {
		for len(deliveries) > 0 {
			end := 1
			for end < min(n, len(deliveries)) && deliveries[end].Queue == deliveries[0].Queue {
				end++
			}
			if !yield(deliveries[:end]) {
				return
			}
			deliveries = deliveries[end:]
		}
	}
}
