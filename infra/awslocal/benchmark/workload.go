package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	queueName = "benchmark.fifo"
	tableName = "benchmark"
	// storedItems is the number of items that GetItem chooses from.
	storedItems = 1000
)

// body is the content of messages and items: 1 KB.
var body = strings.Repeat("0123456789abcdef", 64)

type object map[string]any

// workload is one column of the table.
type workload struct {
	name    string
	on      func(*server) bool
	measure func(s *server, clients int, duration time.Duration) (float64, error)
}

var workloads = []workload{
	{"SendMessage", serversOfSQS, func(s *server, clients int, duration time.Duration) (float64, error) {
		c := newClient(s.url, clients)
		unique := strconv.FormatInt(time.Now().UnixNano(), 36)
		return rate(clients, duration, func(client, n int) error {
			return c.send(s, fmt.Sprintf("%s-%d", unique, client), fmt.Sprintf("%s-%d-%d", unique, client, n))
		})
	}},
	{"Receive+Delete", serversOfSQS, func(s *server, clients int, duration time.Duration) (float64, error) {
		c := newClient(s.url, clients)
		return rate(clients, duration, func(client, n int) error { return c.receiveAndDelete(s) })
	}},
	{"PutItem", serversOfDynamoDB, func(s *server, clients int, duration time.Duration) (float64, error) {
		c := newClient(s.url, clients)
		return rate(clients, duration, func(client, n int) error { return c.put(client*storedItems + n%storedItems) })
	}},
	{"GetItem", serversOfDynamoDB, func(s *server, clients int, duration time.Duration) (float64, error) {
		c := newClient(s.url, clients)
		return rate(clients, duration, func(client, n int) error { return c.get((client + n) % storedItems) })
	}},
}

func serversOfSQS(s *server) bool      { return s.sqs }
func serversOfDynamoDB(s *server) bool { return s.dynamo }

// prepare creates the queue and the table, and puts the items that GetItem chooses from.
func (s *server) prepare(clients int) error {
	c := newClient(s.url, clients)
	if s.sqs {
		err := c.call(sqsTarget, "CreateQueue", object{"QueueName": queueName, "Attributes": object{"FifoQueue": "true"}}, nil)
		if err != nil {
			return err
		}
	}
	if !s.dynamo {
		return nil
	}
	err := c.call(dynamoTarget, "CreateTable", object{
		"TableName": tableName, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}},
		"KeySchema":            []object{{"AttributeName": "id", "KeyType": "HASH"}},
	}, nil)
	if err != nil {
		return err
	}
	for {
		var described struct{ Table struct{ TableStatus string } }
		if err := c.call(dynamoTarget, "DescribeTable", object{"TableName": tableName}, &described); err != nil {
			return err
		}
		if described.Table.TableStatus == "ACTIVE" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range storedItems {
		if err := c.put(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) queueURL() string { return s.url + "/000000000000/" + queueName }

func (c *client) send(s *server, group, id string) error {
	return c.call(sqsTarget, "SendMessage", object{
		"QueueUrl": s.queueURL(), "MessageBody": body, "MessageGroupId": group, "MessageDeduplicationId": id,
	}, nil)
}

// receiveAndDelete receives one message and deletes it. If the queue is empty, it sends some messages first. The
// measured time includes these sends, for every server alike.
func (c *client) receiveAndDelete(s *server) error {
	var received struct {
		Messages []struct{ ReceiptHandle string }
	}
	for range 3 {
		err := c.call(sqsTarget, "ReceiveMessage", object{"QueueUrl": s.queueURL(), "MaxNumberOfMessages": 1}, &received)
		if err != nil {
			return err
		}
		if len(received.Messages) == 1 {
			return c.call(sqsTarget, "DeleteMessage", object{
				"QueueUrl": s.queueURL(), "ReceiptHandle": received.Messages[0].ReceiptHandle,
			}, nil)
		}
		if err := c.sendBatches(s, 100, fmt.Sprint("more-", time.Now().UnixNano())); err != nil {
			return err
		}
	}
	return errors.New("expected to receive one of the messages just sent, got none")
}

// sendBatches sends messages in batches of ten, each message to its own group.
func (c *client) sendBatches(s *server, messages int, unique string) error {
	for first := 0; first < messages; first += 10 {
		var entries []object
		for i := first; i < first+10; i++ {
			id := fmt.Sprintf("%s-%d", unique, i)
			entries = append(entries, object{"Id": strconv.Itoa(i - first), "MessageBody": body, "MessageGroupId": id, "MessageDeduplicationId": id})
		}
		err := c.call(sqsTarget, "SendMessageBatch", object{"QueueUrl": s.queueURL(), "Entries": entries}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func itemKey(i int) object { return object{"id": object{"S": "item-" + strconv.Itoa(i)}} }

func item(i int) object {
	return object{"id": object{"S": "item-" + strconv.Itoa(i)}, "revision": object{"N": "1"}, "body": object{"S": body}}
}

func (c *client) put(i int) error {
	return c.call(dynamoTarget, "PutItem", object{"TableName": tableName, "Item": item(i)}, nil)
}

func (c *client) get(i int) error {
	var got struct{ Item object }
	err := c.call(dynamoTarget, "GetItem", object{"TableName": tableName, "Key": itemKey(i), "ConsistentRead": true}, &got)
	if err == nil && got.Item == nil {
		err = fmt.Errorf("expected item %d to exist", i)
	}
	return err
}

// fill sends the given number of messages and puts as many items.
func (s *server) fill(stored int) error {
	const fillers = 8
	c := newClient(s.url, fillers)
	failed := make(chan error, fillers)
	for filler := range fillers {
		go func() {
			err := c.sendBatches(s, stored/fillers, fmt.Sprint("fill-", filler))
			for first := 0; err == nil && first < stored/fillers; first += 25 {
				var puts []object
				for i := first; i < first+25; i++ {
					puts = append(puts, object{"PutRequest": object{"Item": item(1_000_000*(filler+1) + i)}})
				}
				err = c.call(dynamoTarget, "BatchWriteItem", object{"RequestItems": object{tableName: puts}}, nil)
			}
			failed <- err
		}()
	}
	var first error
	for range fillers {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}
