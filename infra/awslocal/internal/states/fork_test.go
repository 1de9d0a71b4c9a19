package states_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParallelJoinsItsBranchesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Parallel", "Parameters": {"v.$": "$.a"}, "ResultSelector": {"first.$": "$[0]", "all.$": "$"}, "ResultPath": "$.r", "End": true, "Branches": [
		{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 5, "Next": "X"}, "X": {"Type": "Pass", "Result": "slow", "End": true}}},
		{"StartAt": "Y", "States": {"Y": {"Type": "Pass", "InputPath": "$.v", "End": true}}}]}`), `{"a": 1}`)
	w.wantEnd(arn, "RUNNING")
	w.advance(5 * time.Second)
	w.wantEnd(arn, `SUCCEEDED {"a":1,"r":{"all":["slow",1],"first":"slow"}}`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 ParallelStateEntered S <0", "3 ParallelStateStarted <2",
		"4 WaitStateEntered W <3", "5 PassStateEntered Y <3", "6 PassStateExited Y <5",
		"7 WaitStateExited W <4", "8 PassStateEntered X <7", "9 PassStateExited X <8",
		"10 ParallelStateSucceeded <9", "11 ParallelStateExited S <9", "12 ExecutionSucceeded <11")
}

func TestParallelFailsWithItsFirstFailingBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "S", "States": {"S": {"Type": "Parallel", "Next": "C", "Catch": [{"ErrorEquals": ["Bad"], "ResultPath": "$.e", "Next": "C"}], "Branches": [
		{"StartAt": "T", "States": {"T": `+callback(end)+`}},
		{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 2, "Next": "F"}, "F": {"Type": "Fail", "Error": "Bad", "Cause": "why"}}}]},
		"C": {"Type": "Pass", "End": true}}}`, `{"a": 1}`)
	w.advance(2 * time.Second)
	w.wantEnd(arn, `SUCCEEDED {"a":1,"e":{"Cause":"why","Error":"Bad"}}`)
	w.wantError("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"}, "TaskTimedOut", "")
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 ParallelStateEntered S <0", "3 ParallelStateStarted <2",
		"4 TaskStateEntered T <3", "5 TaskScheduled <4", "6 TaskStarted <5", "7 WaitStateEntered W <3", "8 TaskSubmitted <6",
		"9 WaitStateExited W <7", "10 FailStateEntered F <9", "11 TaskStateAborted <8", "12 ParallelStateFailed <10",
		"13 ParallelStateExited S <12", "14 PassStateEntered C <13", "15 PassStateExited C <14", "16 ExecutionSucceeded <15")
	if next, ok := w.m.Next(); ok {
		t.Errorf("work is due at %v after the end", next)
	}
}

func TestParallelIsRetriedAsAWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Parallel", "End": true, "Retry": [{"ErrorEquals": ["Bad"], "IntervalSeconds": 3}], "Branches": [
		{"StartAt": "T", "States": {"T": `+callback(end)+`}}, {"StartAt": "U", "States": {"U": `+callback(end)+`}}]}`), `{}`)
	w.call("SendTaskSuccess", in{"taskToken": w.token(0), "output": `"lost"`})
	w.call("SendTaskFailure", in{"taskToken": w.token(1), "error": "Bad"})
	w.advance(3 * time.Second)
	w.call("SendTaskSuccess", in{"taskToken": w.token(3), "output": `2`})
	w.call("SendTaskSuccess", in{"taskToken": w.token(2), "output": `1`})
	w.wantEnd(arn, `SUCCEEDED [1,2]`)
	w.wantTimes(arn, "ParallelStateStarted", 0, 3)
}

func TestRuntimeErrorInABranchEndsTheExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "S", "States": {"S": {"Type": "Parallel", "Next": "C", "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "C"}], "Branches": [
		{"StartAt": "Fast", "States": {"Fast": {"Type": "Pass", "Parameters": {"m.$": "$.nope"}, "End": true}}}]}, "C": {"Type": "Pass", "End": true}}}`, `{"x":"a"}`)
	w.wantEnd(arn, `FAILED States.Runtime: An error occurred while executing the state 'Fast' (entered at the event id #4). The JSONPath '$.nope' specified for the field 'm.$' could not be found in the input '{"x":"a"}'`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 ParallelStateEntered S <0", "3 ParallelStateStarted <2", "4 PassStateEntered Fast <3", "5 ExecutionFailed <4")
}

func TestMapRunsItsProcessorForEachItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Map", "ItemsPath": "$.items", "MaxConcurrency": 1, "ResultPath": "$.out", "End": true,
		"ItemSelector": {"i.$": "$$.Map.Item.Index", "v.$": "$$.Map.Item.Value", "all.$": "$.n", "s.$": "$$.State.Name"},
		"ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}}`), `{"items": ["a", 1.0], "n": 7}`)
	w.wantEnd(arn, `SUCCEEDED {"items":["a",1.0],"n":7,"out":[{"all":7,"i":0,"s":"S","v":"a"},{"all":7,"i":1,"s":"S","v":1.0}]}`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 MapStateEntered S <0", "3 MapStateStarted <2",
		"4 MapIterationStarted S[0] <3", "5 PassStateEntered P <4", "6 PassStateExited P <5", "7 MapIterationSucceeded S[0] <6",
		"8 MapIterationStarted S[1] <6", "9 PassStateEntered P <8", "10 PassStateExited P <9", "11 MapIterationSucceeded S[1] <10",
		"12 MapStateSucceeded <10", "13 MapStateExited S <10", "14 ExecutionSucceeded <13")
	if started := w.history(arn)[2]["mapStateStartedEventDetails"].(map[string]any); fmt.Sprint(started["length"]) != "2" {
		t.Errorf("MapStateStarted: got %v, want length 2", started)
	}
}

func TestMapInTheOlderForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantEnd(w.run(one(`{"Type": "Map", "End": true, "Parameters": {"x.$": "$$.Map.Item.Value"}, "Iterator": {"StartAt": "P", "States": {"P": {"Type": "Pass", "InputPath": "$.x", "End": true}}}}`), `[3, 1, 2]`), `SUCCEEDED [3,1,2]`)
	w.wantEnd(w.run(one(`{"Type": "Map", "End": true, "Iterator": {"StartAt": "P", "States": {"P": {"Type": "Fail"}}}}`), `[]`), `SUCCEEDED []`)
	got := w.ends(w.run(one(`{"Type": "Map", "End": true, "Iterator": {"StartAt": "P", "States": {"P": {"Type": "Fail"}}}}`), `{}`))
	if !strings.Contains(got, "States.Runtime") || !strings.Contains(got, "must point to array") {
		t.Errorf("items that are not an array: got %s", got)
	}
}

func TestMapLimitsConcurrentIterations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ field, first string }{
		{`"MaxConcurrency": 3, `, "3"},
		{`"MaxConcurrencyPath": "$[0]", `, "2"},
		{``, "40"},
		{`"MaxConcurrency": 100, `, "40"},
	} {
		w := newWorld(t)
		items := make([]string, 50)
		for i := range items {
			items[i] = "2"
		}
		arn := w.run(one(`{"Type": "Map", `+test.field+`"End": true, "ItemProcessor": {"StartAt": "T", "States": {"T": `+callback(end)+`}}}`), `[`+strings.Join(items, ",")+`]`)
		if got := fmt.Sprint(len(w.sent)); got != test.first {
			t.Errorf("%s: %s concurrent iterations, want %s", test.field, got, test.first)
		}
		for i := range items {
			before := len(w.sent)
			w.call("SendTaskSuccess", in{"taskToken": w.token(i), "output": fmt.Sprint(i)})
			if len(w.sent) > before+1 {
				t.Errorf("%s: the end of one iteration began %d", test.field, len(w.sent)-before)
			}
			items[i] = fmt.Sprint(i)
		}
		w.wantEnd(arn, `SUCCEEDED [`+strings.Join(items, ",")+`]`)
	}
}

func TestMapFailsWithItsFirstFailingIteration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Map", "End": true, "ItemProcessor": {"StartAt": "C", "States": {
		"C": {"Type": "Choice", "Choices": [{"Variable": "$", "NumericEquals": 1, "Next": "F"}], "Default": "W"},
		"W": {"Type": "Wait", "Seconds": 9, "End": true}, "F": {"Type": "Fail", "Error": "One"}}}}`), `[0, 1]`)
	w.wantEnd(arn, `FAILED One`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 MapStateEntered S <0", "3 MapStateStarted <2",
		"4 MapIterationStarted S[0] <3", "5 MapIterationStarted S[1] <3",
		"6 ChoiceStateEntered C <4", "7 ChoiceStateExited C <6", "8 ChoiceStateEntered C <5", "9 ChoiceStateExited C <8",
		"10 WaitStateEntered W <7", "11 FailStateEntered F <9", "12 MapIterationFailed S[1] <11",
		"13 WaitStateAborted <10", "14 MapIterationAborted S[0] <10", "15 MapStateFailed <12", "16 ExecutionFailed <15")
}

func TestNestedFlowsSeeTheItemOfTheNearestMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Map", "End": true, "ItemProcessor": {"StartAt": "P", "States": {"P": {"Type": "Parallel", "End": true, "Branches": [
		{"StartAt": "I", "States": {"I": {"Type": "Pass", "Parameters": {"i.$": "$$.Map.Item.Index"}, "OutputPath": "$.i", "End": true}}},
		{"StartAt": "M", "States": {"M": {"Type": "Map", "End": true, "ItemProcessor": {"StartAt": "N", "States": {"N": {"Type": "Pass", "Parameters": {"v.$": "$$.Map.Item.Value"}, "OutputPath": "$.v", "End": true}}}}}}]}}}}`),
		`[["a", "b"], ["c"]]`)
	w.wantEnd(arn, `SUCCEEDED [[0,["a","b"]],[1,["c"]]]`)
}
