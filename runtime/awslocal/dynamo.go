package awslocal

import (
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// dynamoService serves the model of DynamoDB, one call at a time.
type dynamoService struct {
	now func() time.Time

	mu    sync.Mutex
	model *dynamo.Model
}

func newDynamoService(now func() time.Time) *dynamoService {
	return &dynamoService{now: now, model: dynamo.New()}
}

// call performs an operation of DynamoDB, whose input and output are JSON.
func (d *dynamoService) call(operation string, body []byte) ([]byte, *wire.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.model.Call(d.now(), operation, body)
}
