// Package awslocal is AWS on this machine: SQS and DynamoDB behind the wire protocols that
// the AWS SDKs and the aws CLI speak, and a poller that hands queue messages to a handler
// as Lambda's event source mapping does.
//
// A Cloud serves in process through HTTPClient, which needs no socket, or on a loopback port
// through Listen. The models behind it read no clock but Config.Now and draw no random
// numbers, and what waits, waits on channels and timers alone: inside a testing/synctest
// bubble everything here runs in virtual time, and the same calls give the same answers.
//
// What AWS would do and awslocal cannot, it refuses with an error that names it. There is
// one account and one Region, any credentials are accepted, and nothing survives the
// process.
package awslocal

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

const (
	// Account is the AWS account that every queue and table belongs to.
	Account = wire.Account
	// Region is the AWS Region that every queue and table belongs to. Requests signed for
	// another Region are served all the same.
	Region = wire.Region
)

// Config tunes a Cloud. The zero value is ready to use.
type Config struct {
	// Now is the clock. It must not run backwards, and must run with the timers of package
	// time, which end long polls: the two disagree in nothing but a constant. Defaults to
	// time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Cloud is one account's queues and tables. It is safe for concurrent use.
type Cloud struct {
	sqs      *sqsService
	dynamo   *dynamoService
	requests atomic.Uint64 // served so far
}

// New returns a Cloud without queues or tables.
func New(config Config) *Cloud {
	config = config.withDefaults()
	return &Cloud{sqs: newSQSService(config.Now), dynamo: newDynamoService(config.Now)}
}

var _ http.Handler = (*Cloud)(nil)
