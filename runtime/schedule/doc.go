// Package schedule brings messages to the FIFO queue at a later time.
//
// A [DelayQueue] is a standard SQS queue with a delay for each message, which SQS limits to
// fifteen minutes. A message that is due later travels in hops: when it arrives early, the
// [Forwarder] puts it back with the delay that is left. Once due, it goes to the FIFO queue
// under its own deduplication ID. A hop costs two SQS requests and a Lambda invocation: a
// timer of a day would take 96. So [Timers] leave what is due later than one hop to EventBridge
// Scheduler, which hands it to the delay queue shortly before its time. If Scheduler denies or refuses a
// message, the message travels in hops: that costs more and loses nothing. At each early hop the Forwarder asks
// Scheduler again.
//
// A standard queue delivers at least once and in no order. A message may therefore be sent
// twice; its deduplication ID tells, and its event does. Each copy of a message travels on by itself, so the copies
// of a message that is due in weeks multiply. Scheduler ends that: the copies have one schedule.
package schedule
