package simulate_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// TestBadTasks is the table of Step Functions tasks whose event is bad but whose token is readable. The tasks fail with
// the reason, instead of waiting until they time out.
func TestBadTasks(t *testing.T) {
	t.Parallel()
	const token = `"token.$": "$$.Task.Token", "name": "Wait"`
	for _, row := range []struct {
		// event is the message's body as the task sends it. An empty group means probe/1.
		name, event, group string
		// text is the cause of the task's failure, and the reason for parking.
		text string
	}{
		{name: "negative timeout", event: `{"type": "settle.wait", "$task": {` + token + `, "timeoutSeconds": -1}}`, text: `wrong $task: expected no negative seconds, got a timeout of -1 and a heartbeat of 0`},
		{name: "timeout of 30,000 years", event: `{"type": "settle.wait", "$task": {` + token + `, "timeoutSeconds": 1000000000000}}`, text: `wrong $task: expected at most 99999999 seconds, as Step Functions does, got a timeout of 1000000000000 and a heartbeat of 0`},
		{name: "timeout with a fraction", event: `{"type": "settle.wait", "$task": {` + token + `, "timeoutSeconds": 1.5}}`, text: `wrong $task: expected a whole number of 64 bits under "timeoutSeconds", got a number with a fraction or an exponent; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`},
		{name: "heartbeat too short", event: `{"type": "settle.wait", "$task": {` + token + `, "heartbeatSeconds": 1}}`, text: `wrong $task: expected heartbeatSeconds of at least 3, as a heartbeat takes its way through queues, got 1`},
		{name: "heartbeat too long", event: `{"type": "settle.wait", "$task": {` + token + `, "heartbeatSeconds": 100000000}}`, text: `wrong $task: expected at most 99999999 seconds, as Step Functions does, got a timeout of 0 and a heartbeat of 100000000`},
		{name: "entered at no time", event: `{"type": "settle.wait", "$task": {` + token + `, "enteredAt": "yesterday"}}`, text: `wrong $task: expected a time such as $$.State.EnteredTime under "enteredAt", got another string; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`},
		{name: "entered at the end of time", event: `{"type": "settle.wait", "$task": {` + token + `, "enteredAt": "9999-12-31T23:59:59Z", "timeoutSeconds": 60}}`, text: `wrong $task: expected enteredAt ($$.State.EnteredTime) no later than the event was sent, at 2000-01-01T00:00:00Z, got 9999-12-31T23:59:59Z`},
		{name: "unknown key", event: `{"type": "settle.wait", "$task": {` + token + `, "timeout": 60}}`, text: `wrong $task: unknown key "timeout"; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`},
		{name: "wrong case of a key", event: `{"type": "settle.wait", "$task": {` + token + `, "TimeoutSeconds": "60"}}`, text: `wrong $task: unknown key "TimeoutSeconds"; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`},
		{name: "no name", event: `{"type": "settle.wait", "$task": {"token.$": "$$.Task.Token"}}`, text: `wrong $task: expected under "name" or "state" a name of 1 to 256 bytes, such as $$.State.Name, got 0`},
		{name: "name a number", event: `{"type": "settle.wait", "$task": {"token.$": "$$.Task.Token", "name": 7}}`, text: `wrong $task: expected a string under "name", got a number; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`},
		{name: "undeclared event", event: `{"type": "vanish", "$task": {` + token + `}}`, text: `undeclared event type: chart probe has no event "vanish"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`},
		{name: "wrong payload", event: `{"type": "note", "text": 7, "$task": {` + token + `}}`, text: `wrong payload: event "note" of chart probe: expected a string under "text", got a number`},
		{name: "chart fails", event: `{"type": "fail", "$task": {` + token + `}}`, text: `chart probe, state "idle", event "fail": action fail: the printer is out of paper; fix the chart, then send the event again`},
		{name: "unknown machine", group: "nobody/1", event: `{"type": "settle.wait", "$task": {` + token + `}}`, text: `the group of the message: unknown machine: expected one of boat, enrich, harbour, job, probe, ship, signup, got "nobody"`},
		{name: "group without ID", group: "probe/", event: `{"type": "settle.wait", "$task": {` + token + `}}`, text: `the group of the message: not the name of an instance: expected machine/id such as signup/42, got "probe/"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, log *lines) {
				group := row.group
				if group == "" {
					group = probe1
				}
				w.sendRaw(raw{group: probe1, body: firstEvent})
				execution := w.startSending(group, row.event)
				time.Sleep(time.Minute)
				w.sendRaw(raw{group: probe1, body: goodEvent})
				time.Sleep(time.Minute)
				described, err := w.workflows().DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
				if err != nil {
					t.Fatal(err)
				}
				if code, cause := aws.ToString(described.Error), aws.ToString(described.Cause); code != "Settle.Parked" || cause != row.text {
					t.Errorf("the failure of the task:\ngot  %s %s\nwant Settle.Parked %s", code, cause, row.text)
				}
				messages := w.parked()
				if len(messages) != 1 || *messages[0].MessageAttributes["reason"].StringValue != row.text || messages[0].Attributes["MessageGroupId"] != group {
					t.Errorf("want the event parked in its group with the same reason, got %+v", messages)
				}
				if lines := log.of(t, group, slog.LevelError); len(lines) != 1 || lines[0].Reason != row.text {
					t.Errorf("want one error in the log, got %+v", lines)
				}
				if got := w.notes(probe1); got != "first, good" || len(w.record(probe1).Tokens) != 0 {
					t.Errorf("want the instance to continue without the token, got %q and %v", got, w.record(probe1).Tokens)
				}
			})
		})
	}
}

// startSending starts an execution whose only task sends the event and waits for an hour.
func (w *world) startSending(group, event string) (execution string) {
	w.t.Helper()
	machine, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("bad"), RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "Wait", "States": {"Wait": {"Type": "Task", "TimeoutSeconds": 3600, "End": true,
			"Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Parameters": {"QueueUrl": "` + w.queueURL + `", "MessageGroupId": "` + group + `",
			"MessageDeduplicationId.$": "States.Hash($$.Task.Token, 'SHA-256')", "MessageBody": ` + event + `}}}}`),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	started, err := w.workflows().StartExecution(w.t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn})
	if err != nil {
		w.t.Fatal(err)
	}
	return *started.ExecutionArn
}

// TestATaskWithAWrongEntryTimeIsStillAnswered sends tasks with an entry time long ago. The instance must keep the
// task's token while the task waits.
func TestATaskWithAWrongEntryTimeIsStillAnswered(t *testing.T) {
	t.Parallel()
	for _, entered := range []string{"1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"} {
		t.Run(entered, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, _ *lines) {
				w.sendRaw(raw{group: probe1, body: firstEvent})
				execution := w.startSending(probe1, `{"type": "settle.wait", "$task": {"token.$": "$$.Task.Token", "name": "Wait", "enteredAt": "`+entered+`", "timeoutSeconds": 3600}}`)
				time.Sleep(time.Minute)
				w.sendRaw(raw{group: probe1, body: `{"type": "finish"}`})
				time.Sleep(time.Minute)
				if _, end := w.ended(execution); end != "FAILED Settle.Ended" {
					t.Errorf("want the task answered with the instance's end, got %s", end)
				}
				if messages := w.parked(); len(messages) != 0 {
					t.Errorf("want nothing parked, got %s", *messages[0].MessageAttributes["reason"].StringValue)
				}
			})
		})
	}
}

// TestATaskThatNamesAnotherExecutionBlocksForAnHour sends a task whose event names another execution, which runs for a
// day. The task is over before the instance answers it. The history of the other execution never shows the task, so the
// loop retries the answer for an hour.
func TestATaskThatNamesAnotherExecutionBlocksForAnHour(t *testing.T) {
	t.Parallel()
	inProbeWorld(t, func(w *world, log *lines) {
		machine, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("job"), RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "Long", "States": {"Long": {"Type": "Wait", "Seconds": 86400, "End": true}}}`),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		other, err := w.workflows().StartExecution(w.t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn})
		if err != nil {
			w.t.Fatal(err)
		}
		w.sendRaw(raw{group: probe1, body: firstEvent})
		execution := w.startSending(probe1, `{"type": "settle.wait", "$task": {"token.$": "$$.Task.Token", "name": "Wait", "execution": "`+*other.ExecutionArn+`"}}`)
		time.Sleep(time.Minute)
		if _, err := w.workflows().StopExecution(w.t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution}); err != nil {
			w.t.Fatal(err)
		}
		w.sendRaw(raw{group: probe1, body: `{"type": "finish"}`})
		time.Sleep(50 * time.Minute)
		if r := w.record(probe1); len(r.Tokens) != 1 || len(r.FailedEffects) != 0 {
			w.t.Errorf("want the answer retried for an hour, got %d tokens and %+v", len(r.Tokens), r.FailedEffects)
		}
		time.Sleep(20 * time.Minute)
		const reason = "the execution's history does not show how the task ended"
		if r := w.record(probe1); len(r.Tokens) != 0 || len(r.FailedEffects) != 1 || !strings.Contains(r.FailedEffects[0].Error, reason) {
			w.t.Errorf("want the answer dropped with its reason, got %d tokens and %+v", len(r.Tokens), r.FailedEffects)
		}
		if lines := log.of(w.t, probe1, slog.LevelError); len(lines) != 1 || lines[0].Msg != "effect failed permanently" {
			w.t.Errorf("want one error in the log, got %+v", lines)
		}
	})
}

// TestBadRecordsOfLambda is the table of records that no FIFO queue produces, passed directly to the function.
func TestBadRecordsOfLambda(t *testing.T) {
	t.Parallel()
	arn := "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + queueName
	const prefix = "not a message of a FIFO queue: message bad of "
	whole := map[string]string{
		"MessageGroupId": probe1, "SequenceNumber": "18850000000000000001", "MessageDeduplicationId": "bad", "ApproximateReceiveCount": "1", "SentTimestamp": "946684800000",
	}
	for _, row := range []struct{ name, attribute, value, text string }{
		{name: "standard queue", attribute: "MessageGroupId SequenceNumber", value: "", text: `expected the attributes MessageGroupId and SequenceNumber, got "" and "": connect the function to the FIFO queue`},
		{name: "no group", attribute: "MessageGroupId", value: "", text: `expected the attributes MessageGroupId and SequenceNumber, got "" and "18850000000000000001": connect the function to the FIFO queue`},
		{name: "no sequence number", attribute: "SequenceNumber", value: "", text: `expected the attributes MessageGroupId and SequenceNumber, got "probe/1" and "": connect the function to the FIFO queue`},
		{name: "sequence number no number", attribute: "SequenceNumber", value: "first", text: `expected the attributes MessageGroupId and SequenceNumber, got "probe/1" and "first": connect the function to the FIFO queue`},
		{name: "negative sequence number", attribute: "SequenceNumber", value: "-7", text: `expected the attributes MessageGroupId and SequenceNumber, got "probe/1" and "-7": connect the function to the FIFO queue`},
		{name: "no receive count", attribute: "ApproximateReceiveCount", value: "", text: `expected numbers as ApproximateReceiveCount and SentTimestamp, got "" and "946684800000": connect the function to the FIFO queue`},
		{name: "receive count a text", attribute: "ApproximateReceiveCount", value: "many", text: `expected numbers as ApproximateReceiveCount and SentTimestamp, got "many" and "946684800000": connect the function to the FIFO queue`},
		{name: "no time", attribute: "SentTimestamp", value: "", text: `expected numbers as ApproximateReceiveCount and SentTimestamp, got "1" and "": connect the function to the FIFO queue`},
		{name: "time a text", attribute: "SentTimestamp", value: "yesterday", text: `expected numbers as ApproximateReceiveCount and SentTimestamp, got "1" and "yesterday": connect the function to the FIFO queue`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, _ *lines) {
				attributes := maps.Clone(whole)
				for name := range attributes {
					if row.attribute == name || row.attribute == "MessageGroupId SequenceNumber" && (name == "MessageGroupId" || name == "SequenceNumber") {
						attributes[name] = row.value
					}
				}
				_, err := w.invoke(events.SQSMessage{MessageId: "bad", EventSourceARN: arn, Body: goodEvent, Attributes: attributes})
				if err == nil || err.Error() != prefix+arn+": "+row.text {
					t.Errorf("the error of the invocation:\ngot  %v\nwant %s", err, prefix+arn+": "+row.text)
				}
				if got := w.notes(probe1); got != "no instance" {
					t.Errorf("want nothing applied, got %q", got)
				}
			})
		})
	}
}

// TestRecordsThatSQSNeverSendsDoNotBlock passes records directly to the function. No SQS client could send a message
// with the body or the group of these records. The function returns, and applies the good message in the same batch.
func TestRecordsThatSQSNeverSendsDoNotBlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group, body string
		// reason is the reason for parking. `refused` means that parking fails, because SQS refuses the message in the
		// dead-letter queue too.
		reason  string
		refused bool
	}{
		"empty body":              {group: probe1, refused: true},
		"zero bytes":              {group: probe1, body: "\x00\x00", refused: true},
		"invalid UTF-8":           {group: probe1, body: "{\"type\": \"\xff\xfe\"", reason: "not an event: unexpected end of JSON input, got 17 bytes"},
		"group with a space":      {group: "probe/1 2", body: goodEvent, refused: true},
		"group in another script": {group: "probe/é", body: goodEvent, refused: true},
		"group of 129 bytes":      {group: "probe/" + strings.Repeat("x", 123), body: goodEvent, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, log *lines) {
				failed, err := w.invoke(lambdaRecord("bad", c.group, c.body, "1"), lambdaRecord("good", probe2, goodEvent, "2"))
				if err != nil {
					t.Fatal(err)
				}
				if got := w.notes(probe2); got != "good" {
					t.Errorf("want the good message applied, got %q", got)
				}
				if c.refused {
					if len(failed) != 1 || failed[0].ItemIdentifier != "bad" {
						t.Errorf("want the bad message retried, because it cannot be parked, got %v", failed)
					}
					lines := log.of(t, c.group, slog.LevelWarn)
					if len(lines) == 0 || !strings.HasPrefix(lines[0].Error, "parking message bad of "+c.group) {
						t.Errorf("want a warning that it cannot be parked, got %+v", lines)
					}
					return
				}
				want := []logged{{Level: "ERROR", Msg: "event parked", Instance: c.group, Reason: c.reason}}
				if got := log.of(t, c.group, slog.LevelError); !reflect.DeepEqual(got, want) || len(failed) > 0 {
					t.Errorf("the log's errors:\ngot  %+v\nwant %+v", got, want)
				}
			})
		})
	}
}

// lambdaRecord returns a message as Lambda passes it to a function.
func lambdaRecord(id, group, body, sequenceNumber string) events.SQSMessage {
	return events.SQSMessage{MessageId: id, EventSourceARN: "arn:aws:sqs:any", ReceiptHandle: id, Body: body, Attributes: map[string]string{
		"MessageGroupId": group, "SequenceNumber": sequenceNumber, "ApproximateReceiveCount": "1", "SentTimestamp": "946684800000"}}
}

// invoke passes records to the consumer's function.
func (w *world) invoke(records ...events.SQSMessage) (failed []events.SQSBatchItemFailure, err error) {
	w.t.Helper()
	answer, err := w.consumer(w.options).Invoke(w.t.Context(), mustJSON(w.t, events.SQSEvent{Records: records}))
	if err != nil {
		return nil, err
	}
	var response events.SQSEventResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		w.t.Fatal(err)
	}
	return response.BatchItemFailures, nil
}

// TestSQSRefusesInvalidMessages shows which bad input never reaches the queue.
func TestSQSRefusesInvalidMessages(t *testing.T) {
	t.Parallel()
	inProbeWorld(t, func(w *world, _ *lines) {
		for name, message := range map[string]raw{
			"empty body":              {group: probe1},
			"control characters":      {group: probe1, body: "\x00"},
			"group with a space":      {group: "probe/1 2", body: goodEvent},
			"group in another script": {group: "probe/é", body: goodEvent},
			"no group":                {body: goodEvent},
		} {
			_, err := w.queues().SendMessage(w.t.Context(), &sqs.SendMessageInput{
				QueueUrl: &w.queueURL, MessageGroupId: &message.group, MessageBody: &message.body, MessageDeduplicationId: aws.String("any"),
			})
			if err == nil {
				t.Errorf("%s: want SQS to refuse the message", name)
			}
		}
	})
}
