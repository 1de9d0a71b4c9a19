package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	queueARNPrefix = "arn:aws:sqs:" + wire.Region + ":" + wire.Account + ":"
	// universalSQS is the universal target that calls SendMessage with its Input.
	universalSQS = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"

	eventAgeSecondsMax  = 24 * 60 * 60
	retryAttemptsMax    = 185
	messageGroupIDBytes = 128
)

var rolePattern = regexp.MustCompile(`^arn:aws(-[a-z]+)?:iam::\d{12}:role/[\w+=,.@/-]+$`)

// sendMessageMembers lists the members of SendMessage's input. The value says whether the member is required.
var sendMessageMembers = map[string]bool{
	"QueueUrl": true, "MessageBody": true, "DelaySeconds": false, "MessageAttributes": false,
	"MessageSystemAttributes": false, "MessageDeduplicationId": false, "MessageGroupId": false,
}

// checkTarget validates a target and sets its defaults. It accepts any role.
func checkTarget(t *target) *wire.Error {
	switch {
	case t == nil:
		return missing("target")
	case t.Arn == "":
		return missing("target.arn")
	case t.RoleArn == "":
		return missing("target.roleArn")
	case !rolePattern.MatchString(t.RoleArn):
		return constraint(t.RoleArn, "target.roleArn", "Member must satisfy regular expression pattern: %s", rolePattern)
	}
	if err := checkDestination(t); err != nil {
		return err
	}
	if dead := t.DeadLetterConfig; dead != nil {
		if name, ok := strings.CutPrefix(dead.Arn, queueARNPrefix); !ok || name == "" || strings.ContainsAny(name, ":/.") {
			return validation("expected target.deadLetterConfig.arn to be the ARN of a standard queue, %s..., got %q; "+
				"EventBridge Scheduler does not accept a FIFO queue.", queueARNPrefix, dead.Arn)
		}
	}
	return checkRetryPolicy(t)
}

func checkDestination(t *target) *wire.Error {
	name, isQueue := strings.CutPrefix(t.Arn, queueARNPrefix)
	switch {
	case !strings.HasPrefix(t.Arn, "arn:"):
		return validation("Provided Arn is not in correct format.")
	case t.Arn == universalSQS && t.SqsParameters != nil:
		return validation("expected no target.sqsParameters with the universal target %s; set MessageGroupId in its Input.", universalSQS)
	case t.Arn == universalSQS:
		return checkSendMessage(t.Input)
	case !isQueue || name == "" || strings.ContainsAny(name, ":/"):
		return validation("awslocal does not support the target %s; it supports queues, %s..., and %s.",
			t.Arn, queueARNPrefix, universalSQS)
	case t.Input == "":
		return validation("awslocal does not support a target without Input (AWS would send its own notification); set target.input.")
	case t.SqsParameters != nil:
		return checkLength("target.sqsParameters.messageGroupId", t.SqsParameters.MessageGroupId, 1, messageGroupIDBytes)
	}
	return nil
}

// checkSendMessage validates the Input of the universal target as an input of SendMessage.
func checkSendMessage(input string) *wire.Error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(input), &members); err != nil {
		return validation("Invalid RequestJson provided. Reason: expected the JSON object of SQS SendMessage: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, ok := sendMessageMembers[name]; !ok {
			return validation("Invalid RequestJson provided. Reason The field(s) '%s' are not present in api request shape", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sendMessageMembers)) {
		if _, has := members[name]; sendMessageMembers[name] && !has {
			return validation("Invalid RequestJson provided. Reason The field(s) '%s' are required but not present in provided Json", name)
		}
	}
	return nil
}

func checkRetryPolicy(t *target) *wire.Error {
	if t.RetryPolicy == nil {
		t.RetryPolicy = new(retryPolicy)
	}
	p := t.RetryPolicy
	if p.MaximumEventAgeInSeconds == nil {
		p.MaximumEventAgeInSeconds = new(eventAgeSecondsMax)
	}
	if p.MaximumRetryAttempts == nil {
		p.MaximumRetryAttempts = new(retryAttemptsMax)
	}
	if err := checkRange("target.retryPolicy.maximumEventAgeInSeconds", *p.MaximumEventAgeInSeconds, 60, eventAgeSecondsMax); err != nil {
		return err
	}
	return checkRange("target.retryPolicy.maximumRetryAttempts", *p.MaximumRetryAttempts, 0, retryAttemptsMax)
}

// sendMessage holds the members of SendMessage's input that the model sets itself.
type sendMessage struct {
	QueueUrl          string
	MessageBody       string
	MessageGroupId    string                      `json:",omitempty"`
	MessageAttributes map[string]messageAttribute `json:",omitempty"`
}

type messageAttribute struct{ DataType, StringValue string }

// request returns the input of SendMessage for the next attempt. It replaces the context attributes (User Guide,
// "Adding context attributes in EventBridge Scheduler"). The replacement works on the text, so an encoder that writes <
// as \u003c hides the attributes.
func (i *invocation) request() []byte {
	input := strings.NewReplacer(
		"<aws.scheduler.schedule-arn>", scheduleARN(i.key),
		"<aws.scheduler.scheduled-time>", i.scheduledAt.Format(time.RFC3339),
		"<aws.scheduler.execution-id>", i.executionID(),
		"<aws.scheduler.attempt-number>", strconv.Itoa(i.failed+1),
	).Replace(i.target.Input)
	if i.target.Arn == universalSQS {
		return []byte(input)
	}
	send := sendMessage{QueueUrl: strings.TrimPrefix(i.target.Arn, queueARNPrefix), MessageBody: input}
	if i.target.SqsParameters != nil {
		send.MessageGroupId = i.target.SqsParameters.MessageGroupId
	}
	return wire.Encode(send)
}

// deadLetter returns the input of SendMessage for an invocation that the model has given up on (User Guide,
// "Configuring a schedule's dead-letter queue in EventBridge Scheduler"). The body is the request of the last attempt.
// The attributes contain the reason.
func (i *invocation) deadLetter() []byte {
	last := *i
	last.failed-- // the last attempt
	attributes := make(map[string]messageAttribute)
	for name, value := range map[string]string{
		"ERROR_CODE":                i.failure.Code,
		"ERROR_MESSAGE":             i.failure.Message,
		"EXECUTION_ID":              last.executionID(),
		"EXHAUSTED_RETRY_CONDITION": i.failure.Exhausted,
		"IS_PAYLOAD_TRUNCATED":      "false",
		"RETRY_ATTEMPTS":            strconv.Itoa(last.failed),
		"SCHEDULED_TIME":            i.scheduledAt.Format(time.RFC3339),
		"SCHEDULE_ARN":              scheduleARN(i.key),
		"TARGET_ARN":                i.target.Arn,
	} {
		attributes[name] = messageAttribute{DataType: "String", StringValue: value}
	}
	return wire.Encode(sendMessage{
		QueueUrl:          strings.TrimPrefix(i.target.DeadLetterConfig.Arn, queueARNPrefix),
		MessageBody:       string(last.request()),
		MessageAttributes: attributes,
	})
}

// executionID returns an ID for each attempt, with as many digits as the IDs of AWS.
func (i *invocation) executionID() string { return fmt.Sprintf("%013x%03x", i.serial, i.failed+1) }
