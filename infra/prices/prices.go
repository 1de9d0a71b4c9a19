// Package prices has AWS's list prices of us-east-1 in US dollars, without free tiers, discounts and volume tiers. The
// command line and the tests of docs/cost.md use them. No test can check them. docs/cost.md and docs/benchmark.md name their
// sources and dates.
package prices

// List prices. Million in a name means the price of a million such units.
const (
	MillionFIFORequests = 0.50 // of SQS FIFO; each 64 KB of a payload counts as one request
	MillionSQSRequests  = 0.40 // of SQS standard; counted in the same way
	MillionWriteUnits   = 0.625
	MillionReadUnits    = 0.125
	MillionInvocations  = 0.20
	GigabyteSecondX86   = 0.0000166667
	GigabyteSecondARM   = 0.0000133334
	MillionSchedules    = 1.00
	MillionHTTPRequests = 1.00
	GigabyteLogs        = 0.50

	MillionTransitions     = 25.00 // of Standard workflows
	MillionExpressRequests = 1.00
	ExpressGigabyteSecond  = 0.00001667
)

// Assumptions of docs/cost.md about an invocation of the consumer, whatever its batch size. Nothing measures them.
const (
	InvocationSeconds   = 0.020
	InvocationGigabytes = 0.25
)

// MillionConsumerInvocations is the price of a million invocations under these assumptions.
const MillionConsumerInvocations = MillionInvocations + 1e6*InvocationSeconds*InvocationGigabytes*GigabyteSecondARM
