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
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/awslocal"
)

// Each function of each run calls AWS by its role of infra/template.yaml: a call that the role does not allow is denied, as AWS
// would deny it, and fails the tests of the package at the latest in TestMain.

// The stacks whose roles the functions have.
var (
	// plain is the template's, and starting that of a consumer whose charts start workflows.
	plain, starting *guard.Roles
	// ofTwoQueues is the consumer's of simulations that feed it from a second queue too.
	ofTwoQueues *guard.Guard
)

// unneeded are the permissions of the template that no test of this package needs. What else is not used, fails TestMain: give the
// permission up, or test what needs it, whatever chance does.
var unneeded = []string{
	// A timer that hops in spite of Scheduler needs a denial that ends: functions/delay has such a timer.
	"delay: iam:PassRole on ${SchedulerRole.Arn}",
	"delay: scheduler:CreateSchedule on arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule/${AWS::StackName}/*",
	// What is no upload, functions/objects parks: its own test has it do so.
	"objects: sqs:SendMessage on ${DeadLetterQueue.Arn}",
	// Lambda puts there, by the function's role, what the function fails on.
	"objects: sqs:SendMessage on ${ObjectsDeadLetterQueue.Arn}",
	// No world here has the function: its own test does, and cmd/settle/internal/stack.
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

// arnOfQueues begins the ARNs of queues.
const arnOfQueues = "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":"

// stackOfTests is the template's stack, in which resources have the names of these tests.
func stackOfTests() infra.Stack {
	return infra.Stack{
		Name: "settle", Account: awslocal.Account, Region: awslocal.Region,
		Values: map[string]string{
			"Table": table, "DeadLetterQueue.Arn": arnOfQueues + deadLetterName, "SchedulerRole.Arn": anyRole,
			"AWS::StackName":      "default", // It names the schedule group.
			"EnrichWorkflow.Name": "enrich", "JobWorkflow.Name": "job", "JobRelaunchWorkflow.Name": "job-relaunch",
			"PipelineWorkflow.Name": "pipeline", "UploadSalesWorkflow.Name": "upload-sales", "UploadWarehouseWorkflow.Name": "upload-warehouse",
		},
		// The workflows of tests that wait for instances.
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
	ofTwoQueues, err = guard.New(stack, "consumer")
	return err
}

// isWhole reports whether all tests of the package were to run.
func isWhole() bool {
	return !slices.ContainsFunc([]string{"run", "skip", "list", "bench", "fuzz"}, func(name string) bool { return flag.Lookup("test."+name).Value.String() != "" })
}

// judgeRoles returns what the functions have called and may not and, after all tests, what they may call and have not.
func judgeRoles(whole bool) error {
	denied := append(ofTwoQueues.Denied(), plain.Denied(), starting.Denied())
	if denied := errors.Join(denied...); denied != nil {
		return fmt.Errorf("functions have called AWS beyond their roles:\n%w", denied)
	}
	if !whole {
		return nil
	}
	unused := guard.Unused(plain, starting)
	fmt.Println("permissions of infra/template.yaml that no test of this package needs:\n  " + strings.Join(unused, "\n  "))
	var wrong []string
	for _, permission := range unused {
		if !slices.Contains(unneeded, permission) {
			wrong = append(wrong, "expected to be needed, or to be in the list unneeded with its reason: "+permission)
		}
	}
	for _, permission := range unneeded {
		if !slices.Contains(unused, permission) {
			wrong = append(wrong, "expected not to be in the list unneeded, as a test needs it now: "+permission)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// by returns the configuration of clients that call by the role of a function.
func (w *world) by(function string, config aws.Config) aws.Config {
	switch {
	case w.roles != nil:
		w.roles.Attach(function, &config)
	case w.options.workflows != nil:
		starting.Attach(function, &config)
	default:
		plain.Attach(function, &config)
	}
	return config
}

// by returns the configuration of a process's SDK clients, which call by the role of a function.
func (s *simulation) by(function, process string) aws.Config {
	config := s.client(process)
	if function == "consumer" && s.plan.queues > 1 {
		ofTwoQueues.Attach(&config)
	} else {
		starting.Attach(function, &config)
	}
	return config
}
