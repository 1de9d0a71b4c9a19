package host_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra"
)

// templateQueue is a queue of infra/template.yaml with its delivery attributes.
type templateQueue struct {
	logicalID, name string
	attributes      map[string]string
}

// templateQueues parses the queues of the template. Dead-letter queues come before their sources.
func templateQueues(t *testing.T, stack infra.Stack) []templateQueue {
	t.Helper()
	text, err := os.ReadFile("../../infra/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	property := regexp.MustCompile(`(?m)^ +(\w+): (.+)$`)
	arn := "arn:aws:sqs:" + stack.Region + ":" + stack.Account + ":"
	names := map[string]string{}
	var queues []templateQueue
	for _, found := range regexp.MustCompile(`(?m)^  (\w+):\n    Type: AWS::SQS::Queue\n((?:    .*\n)*)`).FindAllStringSubmatch(string(text), -1) {
		q := templateQueue{logicalID: found[1], attributes: map[string]string{}}
		for _, line := range property.FindAllStringSubmatch(found[2], -1) {
			switch key, value := line[1], line[2]; key {
			case "QueueName":
				q.name = strings.Replace(value, "!Sub ${AWS::StackName}", stack.Name, 1)
			case "VisibilityTimeout", "MessageRetentionPeriod", "FifoQueue", "DeduplicationScope", "FifoThroughputLimit":
				q.attributes[key] = value
			case "deadLetterTargetArn":
				dead := names[strings.TrimSuffix(strings.TrimPrefix(value, "!GetAtt "), ".Arn")]
				q.attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q`, arn+dead)
			case "maxReceiveCount":
				q.attributes["RedrivePolicy"] += `,"maxReceiveCount":` + value + `}`
			}
		}
		names[q.logicalID] = q.name
		queues = append(queues, q)
	}
	return queues
}

// TestTemplateQueuesAreParsed guards the parser above.
func TestTemplateQueuesAreParsed(t *testing.T) {
	t.Parallel()
	read := map[string]string{}
	for _, q := range templateQueues(t, infra.Stack{Name: "blue", Account: "1", Region: "here"}) {
		read[q.logicalID] = fmt.Sprint(q.name, " ", q.attributes)
	}
	for id, want := range map[string]string{
		"Queue": `blue.fifo map[DeduplicationScope:messageGroup FifoQueue:true FifoThroughputLimit:perMessageGroupId MessageRetentionPeriod:1209600 ` +
			`RedrivePolicy:{"deadLetterTargetArn":"arn:aws:sqs:here:1:blue-dlq.fifo","maxReceiveCount":1000} VisibilityTimeout:270]`,
		"DelayQueue": `blue-delay map[MessageRetentionPeriod:1209600 ` +
			`RedrivePolicy:{"deadLetterTargetArn":"arn:aws:sqs:here:1:blue-delay-dlq","maxReceiveCount":1000} VisibilityTimeout:180]`,
		"ExecutionsDeadLetterQueue": `blue-executions-dlq map[MessageRetentionPeriod:1209600 VisibilityTimeout:180]`,
	} {
		if read[id] != want {
			t.Errorf("%s: got %s, want %s", id, read[id], want)
		}
	}
	if len(read) != 7 {
		t.Errorf("got %d queues, want 7", len(read))
	}
}

// createQueues creates the queues of the template.
func (d *deployed) createQueues() {
	d.t.Helper()
	client := sqs.NewFromConfig(d.config)
	for _, q := range templateQueues(d.t, d.stack) {
		if _, err := client.CreateQueue(d.ctx, &sqs.CreateQueueInput{QueueName: aws.String(q.name), Attributes: q.attributes}); err != nil {
			d.t.Fatal(err)
		}
	}
}
