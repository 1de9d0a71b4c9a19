package stack

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
)

// byRoles returns a Config.Role that enforces the roles of infra/template.yaml. Calls that the roles do not allow are
// denied and fail the test. Resources have their names from the template, unless Values has another name.
func byRoles(t *testing.T, config Config) Config {
	t.Helper()
	roles, err := guard.NewRoles(infra.Stack{
		Name: "settle", Account: awslocal.Account, Region: awslocal.Region,
		Values: map[string]string{
			"Table": Table, "SchedulerRole.Arn": (*Stack)(nil).RoleARN(schedulerRole),
			"AWS::StackName": "default", // The stack's name is also the name of the schedule group.
		},
		// The workflows that the tests' charts start, and the workflows that wait for instances.
		Workflows: map[string]string{"nap": arn("states", "stateMachine:nap")}, WaitingWorkflows: []string{arn("states", "stateMachine:wait")},
	})
	if err != nil {
		t.Fatal(err)
	}
	config.Role = roles.Attach
	t.Cleanup(func() {
		if err := roles.Denied(); err != nil {
			t.Errorf("the functions called AWS beyond their roles:\n%v", err)
		}
	})
	return config
}

// TestEachFunctionCallsAWSWithItsOwnRole denies everything to one function after another, and checks which work stops.
func TestEachFunctionCallsAWSWithItsOwnRole(t *testing.T) {
	t.Parallel()
	for function, want := range map[string]string{
		"gateway": "503", "consumer": "", "delay": "queued", "": "not_picked_up",
	} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Config{Role: func(name string, settings *aws.Config) {
					if name == function {
						settings.HTTPClient = refusing{}
					}
				}})
				defer stop(t, s)
				answer, err := s.HTTPClient().Post(s.HTTPURL()+"/instances/job/run-1-job-2/events", "application/json", strings.NewReader(`{"type": "queued", "run_id": 1, "job_id": 2, "labels": ["self-hosted"]}`))
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if answer.StatusCode != http.StatusAccepted {
					if got := strconv.Itoa(answer.StatusCode); got != want {
						t.Errorf("expected %q, got the status %s of the gateway", want, got)
					}
					return
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := stateOf(t, s, "run-1-job-2"); got != want {
					t.Errorf("expected %q after an hour, got %q", want, got)
				}
			})
		})
	}
}

// refusing is an HTTP client that refuses all calls.
type refusing struct{}

func (refusing) Do(*http.Request) (*http.Response, error) { return nil, errors.New("call refused") }
