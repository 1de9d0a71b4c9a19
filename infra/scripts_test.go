package infra_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/*.calls")

// uploads is the URL of the uploads' dead-letter queue.
const uploads = "https://sqs.eu-central-1.amazonaws.com/123456789012/settle-objects-dlq\n"

// TestScriptsMakeTheExpectedCalls compares all AWS calls of a script with a reviewed file.
func TestScriptsMakeTheExpectedCalls(t *testing.T) {
	t.Parallel()
	empty := map[string]string{"live": "\n", "waiting": "0\t0\t0\n"}
	withUploads := map[string]string{"live": "\n", "waiting": "0\t0\t0\n", "uploads": uploads, "protected": "True", "left": retained}
	for file, c := range map[string]struct {
		script, input string
		files         map[string]string
		env           []string
		says          string
	}{
		"deploy":               {"deploy.sh", keys, nil, nil, "+ aws cloudformation describe-stacks "},
		"deploy-region":        {"deploy.sh", keys, map[string]string{"bucket": "", "nowhere": ""}, []string{"AWS_REGION=eu-west-1", "STACK=blue"}, "+ aws s3api put-object "},
		"deploy-bucket":        {"deploy.sh", keys, map[string]string{"bucket": ""}, []string{"BUCKET=own-code", "PARAMETERS=ConsumerConcurrency=20"}, "--key settle/consumer-1.zip"},
		"destroy":              {"destroy.sh", "", empty, nil, "The table settle-Table-1 is kept"},
		"destroy-region-table": {"destroy.sh", "blue\n", withUploads, []string{"AWS_REGION=eu-west-1", "DELETE_TABLE=1", "STACK=blue"}, "+ aws dynamodb delete-table --region eu-west-1 --table-name settle-Table-1\n"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			said, calls, code := transcript(t, c.script, c.input, c.files, c.env...)
			if code != 0 || !strings.Contains(said, c.says) {
				t.Errorf("expected exit code 0 and %q, got %d and\n%s", c.says, code, said)
			}
			path := filepath.Join("testdata", file+".calls")
			if *update {
				if err := os.WriteFile(path, []byte(calls), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), calls); diff != "" {
				t.Errorf("the calls differ from %s (-update rewrites it):\n%s", path, diff)
			}
		})
	}
}

// TestScriptsStopAtTheFirstFailedCall fails each required call in turn.
func TestScriptsStopAtTheFirstFailedCall(t *testing.T) {
	t.Parallel()
	files := map[string]string{"live": "\n", "waiting": "0\t0\t0\n", "uploads": uploads, "protected": "True", "left": retained}
	for name, calls := range map[string][]string{
		"deploy.sh": {"sts get-caller-identity", "s3 mb", "s3api put-object", "cloudformation deploy", "cloudformation update-termination-protection"},
		"destroy.sh": {"cloudformation describe-stacks", "dynamodb scan", "sqs list-queues", "sqs get-queue-attributes", "cloudformation update-termination-protection", "cloudformation delete-stack",
			"cloudformation wait", "cloudformation list-stack-resources", "sqs delete-queue", "scheduler delete-schedule-group", "dynamodb update-table", "dynamodb wait", "dynamodb delete-table"},
	} {
		for _, broken := range calls {
			t.Run(name+" "+broken, func(t *testing.T) {
				t.Parallel()
				with := map[string]string{"broken": broken}
				for file, content := range files {
					with[file] = content
				}
				input := map[string]string{"deploy.sh": keys, "destroy.sh": "settle\n"}[name]
				said, made, code := script(t, name, input, with, "DELETE_TABLE=1")
				if broken == "cloudformation deploy" { // The script then checks whether it was the first deployment.
					made = made[:max(len(made)-1, 0)]
				}
				if code == 0 || len(made) == 0 || !strings.HasPrefix(made[len(made)-1], broken) || strings.Contains(said, "Outputs[].[") {
					t.Errorf("expected an error and no further calls, got %d, %q\n%s", code, made, said)
				}
			})
		}
	}
}
