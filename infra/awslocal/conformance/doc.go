// Package conformance contains only tests of AWS behaviours that clients rely on. Each behaviour has one subtest, which
// uses aws-sdk-go-v2. The tests run against awslocal in process and in virtual time, and some of them also over HTTP
// connections. With -sqs-endpoint, -dynamodb-endpoint, -scheduler-endpoint and -stepfunctions-endpoint they run against
// any server of the same protocols:
//
//	go test ./infra/awslocal/conformance -run TestSQS -args -sqs-endpoint=http://127.0.0.1:9324
//
// TestCrosscheck runs the tests against other emulators and compares the failures with a list of known differences.
// make crosscheck installs the emulators first.
package conformance
