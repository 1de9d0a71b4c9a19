// Package schedule sends messages to the FIFO queue at a later time.
//
// A [DelayQueue] is a standard SQS queue with a delay for each message. SQS limits the delay to fifteen minutes. A
// message that is due later travels in hops: when it arrives early, the [Forwarder] sends it again with the remaining
// delay. Once due, it goes to the FIFO queue under its own deduplication ID.
//
// A hop costs two SQS requests and a Lambda invocation, and a timer of one day would need 96 hops. So [Timers] uses
// EventBridge Scheduler for messages that are due later than one hop. Scheduler sends them to the delay queue shortly
// before they are due. If Scheduler denies or refuses a message, the message travels in hops: that costs more but
// loses nothing. At each hop that is more than 30 minutes early, the Forwarder tries Scheduler again.
//
// A standard queue delivers at least once, in any order, so a message may be sent twice. Its deduplication ID and its
// event identify the duplicate. Each copy travels on its own, so copies of a message that is due in weeks multiply.
// Scheduler ends that: all copies share one schedule.
package schedule
