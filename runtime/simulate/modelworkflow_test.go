package simulate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds workflows that charts start to the sequential model.

// nameEnd returns the suffix of an execution's name: a hash of the derived ID of the effect that requests the
// execution.
func nameEnd(id string) string {
	hash := sha256.Sum256([]byte(id))
	return hex.EncodeToString(hash[:16])
}

func endOfName(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// endOfExecution applies the end of an execution, if the instance still waits for it. A message that polls the
// execution applies the end only if `looked` is set, because the history does not show which message applied it.
func (r *replay) endOfExecution(message accepted, looked bool) error {
	var received struct {
		Type, Execution string
		End             statechart.ExecutionEnded
	}
	if err := json.Unmarshal([]byte(message.body), &received); err != nil {
		return err
	}
	name, looks := received.End.Name, received.Type == "settle.execution"
	if looks {
		name = received.Execution
	}
	workflow, awaited := r.awaited[endOfName(name)]
	if !awaited || looks && !looked {
		return nil
	}
	end := r.simulation.endOf(name, workflow)
	if !looks && (received.End.Status != end.Status || string(received.End.Output) != string(end.Output) || received.End.Error != end.Error) {
		return differ("%s received for %s the end %+v, but its end is %+v", r.name, name, received.End, end)
	}
	delete(r.awaited, endOfName(name))
	body, err := json.Marshal(struct {
		Type string `json:"type"`
		statechart.ExecutionEnded
	}{flowEnded, end})
	if err != nil {
		return err
	}
	event, err := r.machine.Decode(body)
	if err != nil {
		return err
	}
	return r.step(event)
}

// endOf returns the end of an execution.
func (s *simulation) endOf(name, workflow string) statechart.ExecutionEnded {
	end := statechart.ExecutionEnded{Workflow: workflow, Name: name}
	arn := strings.Replace(flows[workflow], ":stateMachine:", ":execution:", 1) + ":" + name
	got, err := sfn.NewFromConfig(s.truth()).DescribeExecution(s.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	if err != nil {
		end.Status, end.Error = statechart.ExecutionNotStarted, "StateMachineDoesNotExist"
		return end
	}
	end.Status, end.Error, end.Cause = statechart.ExecutionStatus(got.Status), aws.ToString(got.Error), aws.ToString(got.Cause)
	if got.Output != nil {
		end.Output = json.RawMessage(*got.Output)
	}
	return end
}

// checkWorkflows checks that every requested execution started exactly once, and that no others started.
func (s *simulation) checkWorkflows(replays []*replay) {
	asked, started := map[string]bool{}, map[string]bool{}
	for _, r := range replays {
		for name, workflow := range r.asked {
			asked[name] = workflow == "flow"
		}
		if len(r.awaited) > 0 && !s.ledger.failed[r.name] {
			s.problem("%s still waits for the end of %d executions", r.name, len(r.awaited))
		}
	}
	listed, err := sfn.NewFromConfig(s.truth()).ListExecutions(s.t.Context(), &sfn.ListExecutionsInput{StateMachineArn: aws.String(flows["flow"]), MaxResults: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, execution := range listed.Executions {
		name := endOfName(*execution.Name)
		if started[name] = true; !asked[name] || !strings.HasPrefix(*execution.Name, instances.ExecutionPrefix) {
			s.problem("the execution %s was started without a request", *execution.Name)
		}
	}
	for name, exists := range asked {
		if exists && !started[name] {
			s.problem("an execution with a name ending in %s was requested, but not started", name)
		}
	}
	s.count("executions that charts have started", len(listed.Executions))
}
