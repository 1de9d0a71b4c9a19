package simulate_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra/awslocal"
)

// usage is the billed usage of AWS services.
type usage struct {
	// events counts the messages that functions received from the FIFO queue.
	events int
	// `gets`, `puts`, `updates` and `transactions` count the calls to DynamoDB. `read` and `write` are the units that
	// these calls consumed. `refused` counts the calls whose condition failed: they consume units too, but DynamoDB
	// does not say how many.
	gets, puts, updates, transactions, refused int
	read, write                                float64
	// index counts the write units of the index. They are part of `write`.
	index float64
	// `fifo` and `standard` count the billed requests to the queues of each kind: one for each 64 KB.
	fifo, standard int
	invocations    int
	firings        int // number of schedules that fired
}

// meter counts the usage of a world: the calls of its clients, and the deliveries of Lambda's pollers. A nil meter
// counts nothing.
type meter struct {
	mu   sync.Mutex
	used usage
	// batch, if not nil, receives the bodies of each batch of the FIFO queue.
	batch func(bodies []string)
}

// reset sets the usage to zero.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = usage{}
}

func (m *meter) usage() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// billed returns how many requests SQS bills for a call with that many bytes of messages: "Every 64 KB chunk of a
// payload is billed as 1 request" (https://aws.amazon.com/sqs/pricing/).
func billed(bytes int) int { return max(1, (bytes+64<<10-1)/(64<<10)) }

// request counts billed requests to the queue with that name or URL.
func (u *usage) request(queue string, billed int) {
	if strings.HasSuffix(queue, ".fifo") {
		u.fifo += billed
	} else {
		u.standard += billed
	}
}

// delivered counts a batch for a function: Lambda receives it with one call, and deletes it with another. It is a
// Config.DeliveryFault that injects no fault.
func (m *meter) delivered(batch awslocal.Delivery) awslocal.DeliveryFault {
	if m == nil {
		return awslocal.DeliveryFault{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := 0
	for _, body := range batch.Bodies {
		size += len(body)
	}
	m.used.invocations++
	m.used.request(batch.Queue, billed(size)) // ReceiveMessage
	m.used.request(batch.Queue, 1)            // DeleteMessageBatch
	switch batch.Queue {
	case queueName:
		m.used.events += len(batch.Bodies)
		if m.batch != nil {
			m.batch(batch.Bodies)
		}
	case delayName:
		// Count each message of the delay queue as one that a schedule sent. The method `sent` subtracts the messages
		// that the runtime itself sent.
		m.used.firings += len(batch.Bodies)
		m.used.standard += len(batch.Bodies)
	}
	return awslocal.DeliveryFault{}
}

// over returns a client that counts the calls of `next`.
func (m *meter) over(next aws.HTTPClient) aws.HTTPClient {
	if m == nil {
		return next
	}
	return metered{next, m}
}

type metered struct {
	next  aws.HTTPClient
	meter *meter
}

// Do implements aws.HTTPClient. It asks DynamoDB for the capacity that each call consumes.
func (m metered) Do(request *http.Request) (*http.Response, error) {
	service, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	if service == "" {
		return m.next.Do(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	isTable := strings.HasPrefix(service, "DynamoDB")
	if isTable {
		body = slices.Concat([]byte(`{"ReturnConsumedCapacity":"INDEXES",`), bytes.TrimPrefix(body, []byte("{")))
	} else if service == "AmazonSQS" {
		m.meter.sent(operation, body)
	}
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer, err := m.next.Do(request)
	if err != nil || !isTable {
		return answer, err
	}
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	m.meter.consumed(operation, answer.StatusCode, content)
	return answer, nil
}

// sent counts a call to SQS.
func (m *meter) sent(operation string, body []byte) {
	var call struct {
		QueueURL    string `json:"QueueUrl"`
		MessageBody string
		Entries     []struct{ MessageBody string }
	}
	if err := json.Unmarshal(body, &call); err != nil {
		panic(err)
	}
	size := len(call.MessageBody)
	for _, entry := range call.Entries {
		size += len(entry.MessageBody)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.request(call.QueueURL, billed(size))
	if strings.HasSuffix(call.QueueURL, "/"+delayName) {
		messages := map[string]int{"SendMessage": 1, "SendMessageBatch": len(call.Entries)}[operation]
		m.used.firings -= messages
		m.used.standard -= messages
	}
}

// capacity is the capacity that a call to DynamoDB consumed in a table.
type capacity struct {
	CapacityUnits          float64
	GlobalSecondaryIndexes map[string]struct{ CapacityUnits float64 }
}

// consumed counts a call to DynamoDB.
func (m *meter) consumed(operation string, status int, answer []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if status != http.StatusOK {
		m.used.refused++
	}
	units := &m.used.write
	switch operation {
	case "GetItem":
		m.used.gets++
		units = &m.used.read
	case "PutItem":
		m.used.puts++
	case "UpdateItem":
		m.used.updates++
	case "TransactWriteItems":
		m.used.transactions++
	default:
		panic("expected GetItem, PutItem, UpdateItem or TransactWriteItems, got " + operation)
	}
	for _, consumed := range capacities(operation, answer) {
		*units += consumed.CapacityUnits
		for _, index := range consumed.GlobalSecondaryIndexes {
			m.used.index += index.CapacityUnits
		}
	}
}

// capacities reads the consumed capacity of one table, or of each table in a transaction (DynamoDB API Reference,
// TransactWriteItems).
func capacities(operation string, answer []byte) []capacity {
	var one struct{ ConsumedCapacity capacity }
	var several struct{ ConsumedCapacity []capacity }
	into := any(&one)
	if operation == "TransactWriteItems" {
		into = &several
	}
	if err := json.Unmarshal(answer, into); err != nil {
		panic(err)
	}
	return append(several.ConsumedCapacity, one.ConsumedCapacity)
}
