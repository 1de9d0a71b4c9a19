package simulate_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
)

// Each function of each run calls AWS with the role that infra/template.yaml gives it. A call that the role does not
// allow is denied, as in AWS. The call also makes the tests of the package fail, at the latest in TestMain.

// The functions' roles, in several variants of the stack.
var (
	// `plain` has the roles of the template's stack. In `starting`, the consumer may also start workflows.
	plain, starting *guard.Roles
	// ofTwoQueues is the role of a consumer with a second queue.
	ofTwoQueues *guard.Guard
	// ofLanes has the roles of the template's stack with the lanes bulk and vip.
	ofLanes *guard.Roles
)

// unneeded are the template's permissions that no test of this package needs. TestMain fails for any other unused
// permission: remove it, or test its use reliably.
var unneeded = []string{
	// The machines of these tests emit no events. The tests of runtime/host have a machine that does.
	"consumer: events:PutEvents on arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/${EventBus}",
	// functions/objects parks messages that are not uploads. The function's own test covers this permission.
	"objects: sqs:SendMessage on ${DeadLetterQueue.Arn}",
	// Lambda sends failed messages to this queue with the function's role.
	"objects: sqs:SendMessage on ${ObjectsDeadLetterQueue.Arn}",
	// No world here runs the tokentask function. The function's own test and the tests of cmd/settle/internal/stack
	// cover this permission.
	"tokentask: sqs:SendMessage on ${Queue.Arn}",
}

func TestMain(m *testing.M) {
	err := makeRoles()
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the roles of the functions:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := judgeRoles(code == 0 && isWhole()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// arnOfQueues is the prefix of the ARNs of queues.
const arnOfQueues = "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":"

// stackOfTests returns the template's stack with the resource names of these tests.
func stackOfTests() infra.Stack {
	return infra.Stack{
		Name: "settle", Account: awslocal.Account, Region: awslocal.Region,
		Values: map[string]string{
			"Table": table, "DeadLetterQueue.Arn": arnOfQueues + deadLetterName, "SchedulerRole.Arn": anyRole,
			"AWS::StackName":      "default", // The stack's name is also the name of the schedule group.
			"EnrichWorkflow.Name": "enrich", "JobWorkflow.Name": "job", "JobRelaunchWorkflow.Name": "job-relaunch",
			"PipelineWorkflow.Name": "pipeline", "UploadSalesWorkflow.Name": "upload-sales", "UploadWarehouseWorkflow.Name": "upload-warehouse",
		},
		// The tests' workflows that wait for instances.
		WaitingWorkflows: []string{flowARN + "wait*", flowARN + "bad"},
	}
}

func makeRoles() (err error) {
	stack := stackOfTests()
	if plain, err = guard.NewRoles(stack); err != nil {
		return err
	}
	stack.Workflows = map[string]string{"flow": flows["flow"], "ghost": flows["ghost"], "report": reportARN}
	if starting, err = guard.NewRoles(stack); err != nil {
		return err
	}
	stack.Values["Queue.Arn"] = arnOfQueues + "settle*.fifo"
	if ofTwoQueues, err = guard.New(stack, "consumer"); err != nil {
		return err
	}
	stack = stackOfTests()
	stack.Lanes = options{lanes: []string{"bulk", "vip"}}.arnsOfLanes()
	ofLanes, err = guard.NewRoles(stack)
	return err
}

// isWhole reports whether all tests of the package were selected.
func isWhole() bool {
	return !slices.ContainsFunc([]string{"run", "skip", "list", "bench", "fuzz"}, func(name string) bool { return flag.Lookup("test."+name).Value.String() != "" })
}

// judgeRoles returns an error for calls that the roles do not allow and, after all tests, for permissions that no
// call used.
func judgeRoles(whole bool) error {
	denied := append(ofTwoQueues.Denied(), plain.Denied(), starting.Denied(), ofLanes.Denied())
	if denied := errors.Join(denied...); denied != nil {
		return fmt.Errorf("functions made calls that their roles do not allow:\n%w", denied)
	}
	if !whole {
		return nil
	}
	unused := guard.Unused(plain, starting)
	fmt.Println("permissions of infra/template.yaml that no test of this package needs:\n  " + strings.Join(unused, "\n  "))
	var wrong []string
	for _, permission := range unused {
		if !slices.Contains(unneeded, permission) {
			wrong = append(wrong, "not used by any test: remove the permission, or add it to unneeded with the reason: "+permission)
		}
	}
	for _, permission := range unneeded {
		if !slices.Contains(unused, permission) {
			wrong = append(wrong, "used by a test now: remove it from unneeded: "+permission)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// by returns the configuration of clients with the role of a function.
func (w *world) by(function string, config aws.Config) aws.Config {
	switch {
	case w.roles != nil:
		w.roles.Attach(function, &config)
	case len(w.options.lanes) > 0:
		ofLanes.Attach(function, &config)
	case w.options.workflows != nil:
		starting.Attach(function, &config)
	default:
		plain.Attach(function, &config)
	}
	return config
}

// by returns the configuration of a process's SDK clients, with the role of a function.
func (s *simulation) by(function, process string) aws.Config {
	config := s.client(process)
	if function == "consumer" && s.plan.queues > 1 {
		ofTwoQueues.Attach(&config)
	} else {
		starting.Attach(function, &config)
	}
	return config
}
