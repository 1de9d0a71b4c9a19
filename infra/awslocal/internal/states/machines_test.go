package states_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const passing = `{"StartAt": "S", "States": {"S": {"Type": "Pass", "End": true}}}`

func TestMachineIsCreatedDescribedAndListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	input := in{"name": "m", "definition": passing, "roleArn": role, "type": "STANDARD", "tags": []in{{"key": "b", "value": "2"}, {"key": "a", "value": "1"}},
		"loggingConfiguration": in{"level": "OFF"}, "tracingConfiguration": in{"enabled": false}}
	first := w.call("CreateStateMachine", input)
	w.advance(time.Second)
	if again := w.call("CreateStateMachine", input); again["stateMachineArn"] != machineARN+"m" || again["creationDate"] != first["creationDate"] {
		t.Errorf("the same call returned %v, then %v", first, again)
	}
	got := w.call("DescribeStateMachine", in{"stateMachineArn": machineARN + "m"})
	if got["definition"] != passing || got["status"] != "ACTIVE" || got["type"] != "STANDARD" || got["roleArn"] != role || fmt.Sprint(got["creationDate"]) != "1767323045.000" {
		t.Errorf("DescribeStateMachine: got %v", got)
	}
	w.create("k", passing)
	w.create("n", passing)
	page := w.call("ListStateMachines", in{"maxResults": 2})
	rest := w.call("ListStateMachines", in{"maxResults": 2, "nextToken": page["nextToken"]})
	var names []string
	for _, x := range append(page["stateMachines"].([]any), rest["stateMachines"].([]any)...) {
		names = append(names, x.(map[string]any)["name"].(string))
	}
	if got := strings.Join(names, " "); got != "k m n" || rest["nextToken"] != nil {
		t.Errorf("ListStateMachines: got %s, then %v; want k m n and no other machines", got, rest["nextToken"])
	}
	tags := func() string {
		return fmt.Sprint(w.call("ListTagsForResource", in{"resourceArn": machineARN + "m"})["tags"])
	}
	if got := tags(); got != "[map[key:a value:1] map[key:b value:2]]" {
		t.Errorf("tags: got %s", got)
	}
	w.call("TagResource", in{"resourceArn": machineARN + "m", "tags": []in{{"key": "b", "value": "3"}}})
	w.call("UntagResource", in{"resourceArn": machineARN + "m", "tagKeys": []string{"a"}})
	if got := tags(); got != "[map[key:b value:3]]" {
		t.Errorf("tags: got %s", got)
	}
	w.wantError("TagResource", in{"resourceArn": machineARN + "none"}, "ResourceNotFound", "none")
}

func TestUnsupportedFeaturesAreRejectedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	with := func(more in) in {
		all := in{"name": "m", "definition": passing, "roleArn": role}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	w.wantError("CreateActivity", in{}, "UnknownOperationException", "CreateActivity; it supports CreateStateMachine, ")
	w.wantError("CreateStateMachine", with(in{"type": "EXPRESS"}), "StateMachineTypeNotSupported", "EXPRESS")
	w.wantError("CreateStateMachine", with(in{"loggingConfiguration": in{"level": "ALL"}}), "InvalidLoggingConfiguration", "loggingConfiguration")
	w.wantError("CreateStateMachine", with(in{"tracingConfiguration": in{"enabled": true}}), "InvalidTracingConfiguration", "tracingConfiguration")
	w.wantError("CreateStateMachine", with(in{"publish": true}), "ValidationException", "publish")
	w.wantError("CreateStateMachine", with(in{"versionDescription": "x"}), "ValidationException", "versionDescription")
	w.wantError("CreateStateMachine", with(in{"encryptionConfiguration": in{}}), "ValidationException", "encryptionConfiguration")
	w.wantError("CreateStateMachine", with(in{"tags": []in{{"key": "a", "other": 1}}}), "ValidationException", "other")
	w.wantError("CreateStateMachine", with(in{"Name": "m"}), "ValidationException", "Name")
	w.wantError("CreateStateMachine", with(in{"name": "a/b"}), "InvalidName", "a/b")
	w.wantError("CreateStateMachine", with(in{"roleArn": "role"}), "InvalidArn", "role")
	w.wantError("CreateStateMachine", with(in{"roleArn": ""}), "ValidationException", "roleArn")
	w.wantError("CreateStateMachine", `{"name": 1}`, "SerializationException", "name")
	w.wantError("CreateStateMachine", `[]`, "SerializationException", "object")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m:1"}, "ValidationException", "versions")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m", "traceHeader": "x"}, "ValidationException", "traceHeader")
	w.wantError("DescribeStateMachine", in{"stateMachineArn": machineARN + "m"}, "StateMachineDoesNotExist", "m")
}

func TestInvalidDefinitionIsRejectedWithAllFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := `{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Nope", "Colour": 1}, "B": {"Type": "Pass"}}}`
	want := "Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: Field 'Colour' is not supported here at /States/A/Colour, " +
		"SCHEMA_VALIDATION_FAILED: These fields are required: [Next] or [End] at /States/B, " +
		"MISSING_TRANSITION_TARGET: Missing 'Next' target: Nope at /States/A/Next, " +
		"MISSING_TRANSITION_TARGET: State \"B\" is not reachable. at /States/B'"
	w.wantError("CreateStateMachine", in{"name": "m", "definition": broken, "roleArn": role}, "InvalidDefinition", want)
	w.create("m", passing)
	w.wantError("UpdateStateMachine", in{"stateMachineArn": machineARN + "m", "definition": broken}, "InvalidDefinition", want)
	out := w.call("ValidateStateMachineDefinition", in{"definition": broken})
	if diagnostics := out["diagnostics"].([]any); out["result"] != "FAIL" || len(diagnostics) != 4 || diagnostics[0].(map[string]any)["location"] != "/States/A/Colour" {
		t.Errorf("ValidateStateMachineDefinition: got %v", out)
	}
	if out := w.call("ValidateStateMachineDefinition", in{"definition": passing}); out["result"] != "OK" {
		t.Errorf("ValidateStateMachineDefinition: got %v", out)
	}
	w.wantError("CreateStateMachine", in{"name": "m", "definition": broken[:10], "roleArn": role}, "InvalidDefinition", "INVALID_JSON_DESCRIPTION")
	w.wantError("CreateStateMachine", in{"name": "m", "definition": one(`{"Type": "Fail"}`), "roleArn": role}, "StateMachineAlreadyExists", "m")
}

func TestUpdateDoesNotChangeRunningExecutions(t *testing.T) {
	t.Parallel()
	w := newWorld(t).restoring()
	old := `{"StartAt": "S", "States": {"S": {"Type": "Wait", "Seconds": 5, "Next": "T"}, "T": {"Type": "Pass", "Result": "old", "End": true}}}`
	w.create("m", old)
	before := w.start("m", "before", `{}`)
	w.advance(time.Second)
	updated := w.call("UpdateStateMachine", in{"stateMachineArn": machineARN + "m", "definition": strings.Replace(old, "old", "new", 1)})
	after := w.start("m", "after", `{}`)
	w.advance(time.Minute)
	w.wantEnd(before, `SUCCEEDED "old"`)
	w.wantEnd(after, `SUCCEEDED "new"`)
	if got := w.call("DescribeStateMachineForExecution", in{"executionArn": before}); got["definition"] != old || got["revisionId"] != nil {
		t.Errorf("machine of the first execution: got %v", got)
	}
	got := w.call("DescribeStateMachineForExecution", in{"executionArn": after})
	if !strings.Contains(got["definition"].(string), "new") || got["revisionId"] != updated["revisionId"] || got["updateDate"] != updated["updateDate"] {
		t.Errorf("machine of the second execution: got %v, want the machine of %v", got, updated)
	}
	w.wantError("UpdateStateMachine", in{"stateMachineArn": machineARN + "m"}, "MissingRequiredParameter", "")
}

func TestDeletedMachineEndsItsExecutionsAtTheirNextTransition(t *testing.T) {
	t.Parallel()
	w := newWorld(t).restoring()
	w.create("m", `{"StartAt": "S", "States": {"S": {"Type": "Wait", "SecondsPath": "$", "Next": "T"}, "T": {"Type": "Pass", "End": true}}}`)
	done := w.start("m", "done", `0`)
	short, long := w.start("m", "short", `5`), w.start("m", "long", `9`)
	w.call("DeleteStateMachine", in{"stateMachineArn": machineARN + "m"})
	w.wantEnd(done, "SUCCEEDED 0")
	w.wantEnd(short, "RUNNING")
	if got := w.call("DescribeStateMachine", in{"stateMachineArn": machineARN + "m"})["status"]; got != "DELETING" {
		t.Errorf("status: got %v, want DELETING", got)
	}
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m"}, "StateMachineDeleting", "m")
	w.advance(5 * time.Second)
	w.wantEnd(short, "ABORTED")
	w.wantEnd(long, "RUNNING")
	w.advance(5 * time.Second)
	w.wantError("DescribeStateMachine", in{"stateMachineArn": machineARN + "m"}, "StateMachineDoesNotExist", "m")
	w.wantError("DescribeExecution", in{"executionArn": long}, "ExecutionDoesNotExist", "long")
	w.call("DeleteStateMachine", in{"stateMachineArn": machineARN + "m"})
	if len(w.kept) != 1 {
		t.Errorf("got %d remaining records, want only the counters", len(w.kept))
	}
}

func TestStepWritesOnlyNewEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.Keep()
	arn := w.run(one(callback(`, "HeartbeatSeconds": 60, "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 1000, "BackoffRate": 1}]`+end)), `{}`)
	for n := range 200 {
		w.m.TakeRecords()
		w.call("SendTaskFailure", in{"taskToken": w.token(n), "error": "x"})
		w.advance(time.Second)
		if records := w.m.TakeRecords(); len(records) > 7 {
			t.Fatalf("a retry after %d events writes %d records", len(w.history(arn)), len(records))
		}
	}
}
