package sqs

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	// recreationWait is the time during which a new queue cannot have the name of a deleted queue. purgeWait is the
	// minimum time between two purges of a queue (API Reference, DeleteQueue and PurgeQueue).
	recreationWait = 60 * time.Second
	purgeWait      = 60 * time.Second

	queueNameBytesMax = 80
	listResultsMax    = 1000
	fifoSuffix        = ".fifo"
)

var queueNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// CreateQueue creates a queue. If the queue exists, CreateQueue returns the queue's URL. If a given attribute differs
// from the queue's attribute, it returns QueueNameExists.
func (m *Model) CreateQueue(now time.Time, in *CreateQueueInput) (CreateQueueOutput, *wire.Error) {
	changes := maps.Clone(in.Attributes)
	fifo := changes["FifoQueue"] == "true"
	if changes["FifoQueue"] == "false" {
		delete(changes, "FifoQueue")
	}
	if err := checkQueueName(in.QueueName, fifo); err != nil {
		return CreateQueueOutput{}, err
	}
	out := CreateQueueOutput{QueueUrl: queueURL(in.Endpoint, in.QueueName)}
	if q, ok := m.queues[in.QueueName]; ok {
		return out, sameAttributes(q, changes)
	}
	if at, ok := m.deleted[in.QueueName]; ok && now.Before(at.Add(recreationWait)) {
		return CreateQueueOutput{}, namedf("QueueDeletedRecently", "You must wait %d seconds after deleting "+
			"a queue before you can create another with the same name.", recreationWait/time.Second)
	}
	attributes, parsed, err := applyAttributes(nil, fifo, changes)
	if err != nil {
		return CreateQueueOutput{}, err
	}
	if err := m.checkRedrive(in.QueueName, fifo, parsed.redrive); err != nil {
		return CreateQueueOutput{}, err
	}
	delete(m.deleted, in.QueueName)
	m.noteDeleted(in.QueueName)
	q := m.newQueue(in.QueueName)
	q.serial, q.fifo = m.nextSerial(), fifo
	q.attributes, q.settings, q.tags = attributes, parsed, maps.Clone(in.Tags)
	q.createdAt, q.modifiedAt = now, now
	q.noteQueue()
	m.queues[in.QueueName] = q
	m.touch(in.QueueName)
	return out, nil
}

func checkQueueName(name string, fifo bool) *wire.Error {
	switch base, suffixed := strings.CutSuffix(name, fifoSuffix); {
	case name == "":
		return missingParameter("QueueName")
	case fifo && !(suffixed && queueNamePattern.MatchString(base)) || fifo && len(name) > queueNameBytesMax:
		return invalidParameter("QueueName", name, "The name of a FIFO queue can only include alphanumeric "+
			"characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
	case !fifo && suffixed:
		return invalidParameter("QueueName", name, "Can only include alphanumeric characters, hyphens, or "+
			"underscores. 1 to 80 in length; a name that ends with .fifo needs the attribute FifoQueue=true.")
	case !fifo && (!queueNamePattern.MatchString(name) || len(name) > queueNameBytesMax):
		return invalidParameter("QueueName", name,
			"Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.")
	}
	return nil
}

func sameAttributes(q *queue, given map[string]string) *wire.Error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] != q.attributes[name] {
			err := wire.Errorf("QueueNameExists", "A queue already exists with the same name and a different "+
				"value for attribute %s: it has %q, the request %q.", name, q.attributes[name], given[name])
			err.QueryCode = "QueueAlreadyExists"
			return err
		}
	}
	return nil
}

// GetQueueUrl returns the URL of a queue by its name.
func (m *Model) GetQueueUrl(_ time.Time, in *GetQueueUrlInput) (GetQueueUrlOutput, *wire.Error) {
	if in.QueueName == "" {
		return GetQueueUrlOutput{}, missingParameter("QueueName")
	}
	owner := in.QueueOwnerAWSAccountId
	if _, ok := m.queues[in.QueueName]; !ok || owner != "" && owner != wire.Account {
		return GetQueueUrlOutput{}, noSuchQueue(in.QueueName)
	}
	return GetQueueUrlOutput{QueueUrl: queueURL(in.Endpoint, in.QueueName)}, nil
}

// ListQueues returns the URLs of the queues whose names start with a prefix, ordered by name. Like SQS, it pages only
// if MaxResults is set.
func (m *Model) ListQueues(_ time.Time, in *ListQueuesInput) (ListQueuesOutput, *wire.Error) {
	most := listResultsMax
	if in.MaxResults != nil {
		if most = *in.MaxResults; most < 1 || most > listResultsMax {
			return ListQueuesOutput{}, invalidParameter("MaxResults", most, "Must be between 1 and 1000.")
		}
	}
	var out ListQueuesOutput
	last := ""
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		// NextToken is the last name of the previous page.
		if !strings.HasPrefix(name, in.QueueNamePrefix) || name <= in.NextToken {
			continue
		}
		if len(out.QueueUrls) == most {
			if in.MaxResults != nil {
				out.NextToken = last
			}
			break
		}
		out.QueueUrls = append(out.QueueUrls, queueURL(in.Endpoint, name))
		last = name
	}
	return out, nil
}

// GetQueueAttributes returns the requested attributes of a queue.
func (m *Model) GetQueueAttributes(now time.Time, in *GetQueueAttributesInput) (GetQueueAttributesOutput, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return GetQueueAttributesOutput{}, err
	}
	all := maps.Clone(q.attributes)
	all["QueueArn"] = QueueARN(q.name)
	all["CreatedTimestamp"] = strconv.FormatInt(q.createdAt.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modifiedAt.Unix(), 10)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(len(q.messages) - q.inFlight - q.delayed)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.delayed)

	out := GetQueueAttributesOutput{Attributes: make(map[string]string)}
	for _, name := range in.AttributeNames {
		value, has := all[name]
		_, canHave := settables[name]
		_, elsewhere := unsupported[name]
		switch {
		case name == "All":
			out.Attributes = all
			return out, nil
		case has:
			out.Attributes[name] = value
		case !canHave && !elsewhere:
			return GetQueueAttributesOutput{}, wire.Errorf("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	return out, nil
}

// SetQueueAttributes changes attributes of a queue. The changes apply to later calls. A new DelaySeconds of a FIFO
// queue also applies to delayed messages (API Reference, SetQueueAttributes).
func (m *Model) SetQueueAttributes(now time.Time, in *SetQueueAttributesInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	if len(in.Attributes) == 0 {
		return Empty{}, missingParameter("Attributes")
	}
	attributes, parsed, err := applyAttributes(q.attributes, q.fifo, in.Attributes)
	if err != nil {
		return Empty{}, err
	}
	if err := m.checkRedrive(q.name, q.fifo, parsed.redrive); err != nil {
		return Empty{}, err
	}
	retime := q.fifo && parsed.delay != q.settings.delay
	q.attributes, q.settings, q.modifiedAt = attributes, parsed, now
	q.noteQueue()
	if retime {
		for _, msg := range q.messages {
			if msg.state == delayed {
				q.postpone(msg, msg.sentAt.Add(parsed.delay))
			}
		}
	}
	q.advance(now)
	return Empty{}, nil
}

// DeleteQueue deletes a queue and its messages.
func (m *Model) DeleteQueue(now time.Time, in *DeleteQueueInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	q.clear()
	q.sent.clear()
	q.noteQueue()
	delete(m.queues, q.name)
	m.deleted[q.name] = now
	m.noteDeleted(q.name)
	return Empty{}, nil
}

// PurgeQueue deletes all messages of a queue, including those in flight.
func (m *Model) PurgeQueue(now time.Time, in *PurgeQueueInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	if !q.purgedAt.IsZero() && now.Before(q.purgedAt.Add(purgeWait)) {
		err := namedf("PurgeQueueInProgress",
			"Only one PurgeQueue operation on %s is allowed every %d seconds.", q.name, purgeWait/time.Second)
		err.Status = 403
		return Empty{}, err
	}
	q.purgedAt = now
	q.noteQueue()
	q.clear()
	return Empty{}, nil
}

// VisibilityTimeout returns the default visibility timeout of a queue.
func (m *Model) VisibilityTimeout(name string) (time.Duration, *wire.Error) {
	q, ok := m.queues[name]
	if !ok {
		return 0, noSuchQueue(name)
	}
	return q.settings.visibility, nil
}
