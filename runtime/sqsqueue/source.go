package sqsqueue

import (
	"iter"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
)

// urlOf returns the URL of the queue that a delivery is from, which need not be the consumer's own: it has the account and
// the name of the delivery's ARN. Event source mappings know queues of their own Region only. Without an ARN, it is the
// consumer's.
func urlOf(own, arn string) string {
	parts := strings.Split(arn, ":") // arn:aws:sqs:eu-central-1:123456789012:name
	path := strings.Split(own, "/")
	if len(parts) != 6 || len(path) < 2 {
		return own
	}
	copy(path[len(path)-2:], parts[4:])
	return strings.Join(path, "/")
}

// chunks returns the deliveries in their order, by at most n that are from one queue.
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
