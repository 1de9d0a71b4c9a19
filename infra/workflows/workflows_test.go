package workflows_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/workflows"
)

// validator is the path of asl-validator, which `make test` installs.
const validator = "testdata/npm/node_modules/asl-validator/dist/bin/asl-validator.js"

// validate runs asl-validator on a file. It returns the output and whether the file is valid.
func validate(t *testing.T, path string) (said string, ok bool) {
	t.Helper()
	_, err := os.Stat(validator)
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound)) && os.Getenv("CI") == "" {
		t.Skip("Node or the npm package asl-validator is not installed: run `make test`")
	}
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "node", validator, "--json-path", path).CombinedOutput()
	var refused *exec.ExitError
	if err != nil && (!errors.As(err, &refused) || refused.ExitCode() != 1) {
		t.Fatalf("asl-validator failed: %v\n%s", err, output)
	}
	return string(output), err == nil
}

func names(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.asl.json")
	if err != nil || len(paths) < 6 {
		t.Fatalf("expected at least 6 workflows, got %v, %v", paths, err)
	}
	for i := range paths {
		paths[i] = strings.TrimSuffix(paths[i], ".asl.json")
	}
	return paths
}

func TestWorkflowsAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said, ok := validate(t, name+".asl.json"); !ok {
				t.Errorf("asl-validator rejects %s:\n%s", name, said)
			}
		})
	}
}

func TestInvalidWorkflowsAreRejected(t *testing.T) {
	t.Parallel()
	definition, err := workflows.Definition("job")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a missing target": {`"Next": "PickedUp?"`, `"Next": "PickedUpp?"`, "PickedUpp?"},
		"an unknown field": {`"TimeoutSeconds": 3600`, `"TimeoutSecond": 3600`, "/States/Queued is invalid"},
		"an invalid path":  {`"$.queue_url"`, `"queue_url"`, "/States/Queued/Parameters/QueueUrl.$ is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(definition, c.from, c.to, 1)
			path := filepath.Join(t.TempDir(), "broken.asl.json")
			if err := os.WriteFile(path, []byte(broken), 0o600); err != nil || broken == definition || !json.Valid([]byte(broken)) {
				t.Fatalf("breaking the workflow: %v", err)
			}
			if said, ok := validate(t, path); ok || !strings.Contains(said, c.want) {
				t.Errorf("expected an error containing %s, got valid=%v:\n%s", c.want, ok, said)
			}
		})
	}
}

func TestDefinitionsEqualTheFilesWithoutAccounts(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		want, err := os.ReadFile(name + ".asl.json")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := workflows.Definition(name); err != nil || got != string(want) {
			t.Errorf("%s: expected the text of the file, got %d bytes and %v", name, len(got), err)
		}
		if account := regexp.MustCompile(`\b\d{12}\b|https://|\$\{`).FindString(string(want)); account != "" {
			t.Errorf("%s: expected no placeholder, URL or account, got %s", name, account)
		}
	}
	if _, err := workflows.Definition("nope"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `got "nope"`) {
		t.Errorf("expected an error that names nope, got %v", err)
	}
}

// A task that waits has a timeout, and sends its token and timeoutSeconds to an instance. The instance checks the token
// after timeoutSeconds. If the task has a different timeout, this check comes too early or too late.
func TestTasksSendTheirTimeout(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range names(t) {
		text, err := workflows.Definition(name)
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			States map[string]struct {
				Resource       string
				TimeoutSeconds int
				Parameters     struct {
					Group       string `json:"MessageGroupId.$"`
					MessageBody struct {
						Task map[string]any `json:"$task"`
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &definition); err != nil {
			t.Fatal(err)
		}
		waiting := 0
		for state, s := range definition.States {
			if strings.HasSuffix(s.Resource, ".waitForTaskToken") {
				waiting++
				if s.Resource != "arn:aws:states:::sqs:sendMessage.waitForTaskToken" || s.TimeoutSeconds <= 0 ||
					s.Parameters.MessageBody.Task["token.$"] != "$$.Task.Token" || s.Parameters.Group == "" {
					t.Errorf("%s, state %s: expected a timeout, and to send the task token to an instance", name, state)
				}
			}
			if seconds, ok := s.Parameters.MessageBody.Task["timeoutSeconds"]; ok {
				found++
				if seconds != float64(s.TimeoutSeconds) {
					t.Errorf("%s, state %s: expected timeoutSeconds %d, got %v", name, state, s.TimeoutSeconds, seconds)
				}
			}
		}
		if waiting == 0 {
			t.Errorf("%s: expected a state that waits with a task token", name)
		}
	}
	if found < 5 {
		t.Errorf("expected at least 5 tasks with timeoutSeconds, got %d", found)
	}
}

// SQS drops a message whose deduplication ID was used within five minutes. By default, deduplication covers the
// whole queue, so events for different instances need different IDs too.
func TestSendsHaveDistinctDeduplicationIDs(t *testing.T) {
	t.Parallel()
	sends := map[string]string{}
	for _, name := range names(t) {
		text, err := workflows.Definition(name)
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			States map[string]struct {
				Resource   string
				Parameters map[string]any
			}
		}
		if err := json.Unmarshal([]byte(text), &definition); err != nil {
			t.Fatal(err)
		}
		for state, s := range definition.States {
			if strings.Contains(s.Resource, ":sqs:sendMessage") {
				sends[name+"/"+state], _ = s.Parameters["MessageDeduplicationId.$"].(string)
			}
		}
	}
	// A task token is unique to one attempt. Without a token, the ID is a hash of the execution and the content.
	const byToken = "States.Hash($$.Task.Token, 'SHA-256')"
	without := map[string]string{"job-relaunch/Relaunch": "States.Hash(States.Format('{}/{}', $$.Execution.Id, $.runner.launch), 'SHA-256')"}
	for state, got := range sends {
		want, ok := without[state]
		if !ok {
			want = byToken
		}
		if got != want {
			t.Errorf("%s: expected the deduplication ID %s, got %q", state, want, got)
		}
	}
	if len(sends) < 7 {
		t.Errorf("expected at least 7 sends, got %d", len(sends))
	}
}
