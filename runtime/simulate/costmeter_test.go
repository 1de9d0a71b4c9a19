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

	"github.com/settle-run/settle/runtime/awslocal"
)

// usage is what AWS bills.
type usage struct {
	// events are the messages that functions were given from the FIFO queue.
	events int
	// gets, puts, updates and transactions are calls to DynamoDB, read and write the units that they consumed, and refused
	// those whose condition did not hold: they consume units too, but DynamoDB does not say how many.
	gets, puts, updates, transactions, refused int
	read, write                                float64
	// index are the write units of the index, which are among write.
	index float64
	// fifo and standard are the requests to the queues of those kinds, as they are billed: one for each 64 KB.
	fifo, standard int
	invocations    int
	firings        int // of schedules
}

// meter counts what a world uses: the calls of clients that go through it, and the deliveries of Lambda's pollers.
// Without one, nothing is counted.
type meter struct {
	mu   sync.Mutex
	used usage
	// batch is told of each batch of the FIFO queue, if it is not nil.
	batch func(bodies []string)
}

// reset forgets what was used so far.
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

// billed returns how many requests SQS bills for a call with so many bytes of messages: "Every 64 KB chunk of a
// payload is billed as 1 request" (https://aws.amazon.com/sqs/pricing/).
func billed(bytes int) int { return max(1, (bytes+64<<10-1)/(64<<10)) }

// request counts so many billed requests to the queue with the name or URL.
func (u *usage) request(queue string, billed int) {
	if strings.HasSuffix(queue, ".fifo") {
		u.fifo += billed
	} else {
		u.standard += billed
	}
}

// delivered counts a batch that a function is given: Lambda receives it with one call, and deletes it with another.
// It is Config.DeliveryFault, and does no harm.
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
		// What the runtime has not sent itself, a schedule has, and pays for: see sent.
		m.used.firings += len(batch.Bodies)
		m.used.standard += len(batch.Bodies)
	}
	return awslocal.DeliveryFault{}
}

// over returns a client whose calls are counted.
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
	told, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(told))
	m.meter.consumed(operation, answer.StatusCode, told)
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

// capacity is what a call to DynamoDB has consumed of a table.
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

// capacities reads what a call has consumed: of one table or, for a transaction, of each (DynamoDB API Reference,
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
