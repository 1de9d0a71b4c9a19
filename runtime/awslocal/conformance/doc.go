// Package conformance holds no code, only tests: what AWS does and its clients rely on, one
// behaviour a subtest, driven through aws-sdk-go-v2. They run against awslocal in process
// and in virtual time, some of them over a socket too, and with -sqs-endpoint,
// -dynamodb-endpoint, -scheduler-endpoint and -stepfunctions-endpoint against anything that
// speaks the same protocols:
//
//	go test ./runtime/awslocal/conformance -run TestSQS -args -sqs-endpoint=http://127.0.0.1:9324
//
// TestCrosscheck runs them against other emulators and compares what differs with the list
// of what is known to differ; make crosscheck installs the emulators first.
package conformance
