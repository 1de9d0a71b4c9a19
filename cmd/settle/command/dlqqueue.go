package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
)

// liveQueues are the queues of settle dev that are not dead-letter queues.
var liveQueues = []string{stack.Queue, stack.DelayQueue, stack.ExecutionsQueue}

// queueName returns the name of a queue from its name or its URL.
func queueName(queue string) string {
	queue = strings.TrimRight(queue, "/")
	return queue[strings.LastIndexByte(queue, '/')+1:]
}

// checkQueue refuses a live queue as dead-letter queue: receiving from it delays its events, and dropping loses them.
// It compares names only. That is enough, because SQS requires a dead-letter queue to be in the account and Region of
// its queue, where no two queues have the same name.
func (f dlqFlags) checkQueue() error {
	switch name := queueName(f.DeadLetterQueue); {
	case name == queueName(f.Queue):
		return fmt.Errorf("%w: --queue and --dead-letter-queue: expected a queue and its dead-letter queue, got %s for both; "+
			"they default to SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL", errUsage, name)
	case f.Local && slices.Contains(liveQueues, name):
		return fmt.Errorf("%w: --dead-letter-queue: expected a dead-letter queue, such as %s, got %s, which is a live queue",
			errUsage, stack.DeadLetterQueue, name)
	default:
		return nil
	}
}

// checkSwapped refuses a queue whose RedrivePolicy names --queue as its dead-letter queue.
func (f dlqFlags) checkSwapped(policy string) error {
	if target := deadLetterQueueOf(policy); target != "" && target == queueName(f.Queue) {
		return fmt.Errorf("%w: --queue and --dead-letter-queue are swapped, or SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL are: "+
			"%s is the dead-letter queue of %s", errUsage, target, queueName(f.DeadLetterQueue))
	}
	return nil
}
