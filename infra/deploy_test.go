package infra_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn is a fake aws CLI. It records each call with the Region that it would use without --region, and answers read
// calls from the test's files. If the test writes the file "broken", the call that this file names fails.
const standIn = `#!/usr/bin/env bash
folder=$(dirname "$0")
echo "$*" >>"$folder/calls"
echo "${AWS_DEFAULT_REGION:-nowhere}: $*" >>"$folder/transcript"
if [[ -e $folder/broken && "$1 $2" == "$(<"$folder/broken")" ]]; then exit 255; fi
case "$1 $2" in
"sts get-caller-identity") echo 123456789012 ;;
"configure get") if [[ -e $folder/nowhere ]]; then exit 1; fi; echo eu-central-1 ;;
"s3api head-bucket") [[ -e $folder/bucket ]] ;;
"s3api head-object") if [[ -e $folder/object ]]; then cat "$folder/object"; else exit 254; fi ;;
"cloudformation deploy") if [[ -e $folder/refused ]]; then cp "$folder/refused" "$folder/status"; exit 255; fi ;;
"cloudformation list-stack-resources") if [[ -e $folder/left ]]; then cat "$folder/left"; else echo None; fi ;;
"cloudformation describe-stacks")
	case "$*" in
	*StackStatus*) cat "$folder/status" ;;
	*Lanes*) if [[ -e $folder/lanes ]]; then cat "$folder/lanes"; else echo None; fi ;;
	*EnableTerminationProtection*) echo "arn:aws:cloudformation:eu-central-1:123456789012:stack/settle/1	$(cat "$folder/protected" 2>/dev/null || echo False)" ;;
	*TableName*) if [[ ! -e $folder/bare ]]; then echo settle-Table-1; fi ;;
	*QueueUrl*) if [[ ! -e $folder/bare ]]; then echo https://sqs.eu-central-1.amazonaws.com/123456789012/settle.fifo; fi ;;
	esac
	;;
"dynamodb scan") cat "$folder/live" ;;
"sqs list-queues") if [[ -e $folder/uploads ]]; then cat "$folder/uploads"; else echo None; fi ;;
"sqs get-queue-attributes")
	if [[ $* == *-objects-dlq* && ! -e $folder/uploads ]]; then echo 'The specified queue does not exist.' >&2; exit 254; fi
	if [[ -e $folder/late && $(grep -c delete-stack "$folder/calls") == 1 ]]; then cat "$folder/late"; else cat "$folder/waiting"; fi
	;;
esac
`

// script runs a script with the fake CLI on the PATH. The argument `files` holds the answers of the
// fake CLI. The results are the script's output, its calls to the aws CLI, and its exit code.
func script(t *testing.T, name, input string, files map[string]string, env ...string) (said string, calls []string, code int) {
	t.Helper()
	folder := t.TempDir()
	said, code = play(t, folder, name, input, files, env...)
	return said, noted(t, folder, "calls"), code
}

// transcript is like script, but returns each call with its Region. It is for tests that compare all calls with a file
// of testdata.
func transcript(t *testing.T, name, input string, files map[string]string, env ...string) (said, calls string, code int) {
	t.Helper()
	folder := t.TempDir()
	said, code = play(t, folder, name, input, files, env...)
	return said, strings.Join(noted(t, folder, "transcript"), "\n") + "\n", code
}

// play runs a script with the fake CLI in a folder.
func play(t *testing.T, folder, name, input string, files map[string]string, env ...string) (said string, code int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "aws"), []byte(standIn), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "bash", name)
	command.Env = append([]string{"PATH=" + folder + string(filepath.ListSeparator) + os.Getenv("PATH")}, env...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return string(output), command.ProcessState.ExitCode()
}

// noted returns the recorded calls.
func noted(t *testing.T, folder, file string) (calls []string) {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		calls = append(calls, strings.TrimSpace(string(line)))
	}
	return calls
}

// keys is the output of infra/pack.
const keys = "consumer consumer-1.zip SUM= own folder/consumer.zip\ndelay delay-2.zip SUM= zips/delay.zip\nexecutions executions-3.zip SUM= zips/executions.zip\n" +
	"gateway gateway-4.zip SUM= zips/gateway.zip\nobjects objects-5.zip SUM= zips/objects.zip\nother other-7.zip SUM= zips/other.zip\ntokentask tokentask-6.zip SUM= zips/tokentask.zip\n"

func with(calls []string, prefix string) []string {
	var found []string
	for _, call := range calls {
		if strings.HasPrefix(call, prefix) {
			found = append(found, call)
		}
	}
	return found
}

func TestDeployUploadsTheFunctionsAndDeploysTheTemplate(t *testing.T) {
	t.Parallel()
	said, calls, code := script(t, "deploy.sh", keys, nil, "STACK=blue", "PARAMETERS=AlarmTopic=arn:aws:sns:eu-central-1:123456789012:alarms ConsumerConcurrency=20 UploadBuckets=sales,warehouse")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	if made := with(calls, "s3 mb"); len(made) != 1 || made[0] != "s3 mb s3://settle-code-123456789012-eu-central-1 --region eu-central-1" {
		t.Errorf("expected one new bucket, got %q", made)
	}
	uploads := with(calls, "s3api put-object")
	if len(uploads) != 6 || uploads[0] != "s3api put-object --region eu-central-1 --bucket settle-code-123456789012-eu-central-1 --expected-bucket-owner 123456789012 "+
		"--key blue/consumer-1.zip --body own folder/consumer.zip --checksum-sha256 SUM= --query ChecksumSHA256 --output text" {
		t.Errorf("expected uploads of the template's six functions, got %q", uploads)
	}
	want := "cloudformation deploy --region eu-central-1 --stack-name blue --template-file ./template.yaml --s3-bucket settle-code-123456789012-eu-central-1 --s3-prefix blue --force-upload " +
		"--capabilities CAPABILITY_IAM --no-fail-on-empty-changeset --parameter-overrides CodeBucket=settle-code-123456789012-eu-central-1 " +
		"ConsumerCode=blue/consumer-1.zip DelayCode=blue/delay-2.zip ExecutionsCode=blue/executions-3.zip GatewayCode=blue/gateway-4.zip ObjectsCode=blue/objects-5.zip TokentaskCode=blue/tokentask-6.zip " +
		"AlarmTopic=arn:aws:sns:eu-central-1:123456789012:alarms ConsumerConcurrency=20 UploadBuckets=sales,warehouse"
	if deployed := with(calls, "cloudformation deploy"); len(deployed) != 1 || deployed[0] != want {
		t.Errorf("got\n%q\nwant\n%s", deployed, want)
	}
	if protected := with(calls, "cloudformation update-termination-protection --enable-termination-protection"); len(protected) != 1 || !strings.Contains(protected[0], "--stack-name blue") {
		t.Errorf("expected the stack protected against deletion, got %q", protected)
	}
}

func TestOwnFunctionsGetNoOpenRouteUnlessAsked(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]string{
		"": " GitHubWebhook=off Callbacks=off", "Callbacks=on": " Callbacks=on GitHubWebhook=off", "AlarmTopic=a": " AlarmTopic=a GitHubWebhook=off Callbacks=off",
		"GitHubWebhook=on Callbacks=on": " GitHubWebhook=on Callbacks=on",
	} {
		said, calls, code := script(t, "deploy.sh", keys, nil, "OWN=build", "PARAMETERS="+parameters)
		if deployed := with(calls, "cloudformation deploy"); code != 0 || len(deployed) != 1 || !strings.HasSuffix(deployed[0], "TokentaskCode=settle/tokentask-6.zip"+want) {
			t.Errorf("%q: expected %q, got %d and %q\n%s", parameters, want, code, deployed, said)
		}
	}
}

func TestScriptsRequireARegion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"deploy.sh", "destroy.sh"} {
		said, calls, code := script(t, name, keys, map[string]string{"nowhere": ""})
		if code != 2 || said != "expected a Region, found none: set AWS_REGION, or run aws configure set region eu-central-1\n" || len(calls) != 1 {
			t.Errorf("%s: expected an error about the missing Region, got exit code %d, %q and %q", name, code, calls, said)
		}
	}
	said, calls, code := script(t, "deploy.sh", keys, map[string]string{"nowhere": ""}, "AWS_DEFAULT_REGION=eu-west-1")
	if deployed := with(calls, "cloudformation deploy"); code != 0 || len(deployed) != 1 || !strings.Contains(deployed[0], "--region eu-west-1") {
		t.Errorf("expected a deployment to eu-west-1, got exit code %d, %q and %q", code, calls, said)
	}
}

// TestDeployUploadsUnlessTheObjectIsTheSame covers objects with another checksum, and objects without a checksum, such
// as objects that another tool uploaded.
func TestDeployUploadsUnlessTheObjectIsTheSame(t *testing.T) {
	t.Parallel()
	for stored, uploads := range map[string]int{"SUM=": 0, "OTHER=": 6, "None": 6, "": 6} {
		said, calls, code := script(t, "deploy.sh", keys, map[string]string{"bucket": "", "object": stored + "\n"})
		if code != 0 || len(with(calls, "s3api put-object")) != uploads || len(with(calls, "s3 ")) != 0 || len(with(calls, "cloudformation deploy")) != 1 {
			t.Errorf("%q: expected a deployment with %d uploads, got exit code %d and %q\n%s", stored, uploads, code, calls, said)
		}
	}
}

func TestDeployChecksTheOwnerOfTheBucket(t *testing.T) {
	t.Parallel()
	said, calls, code := script(t, "deploy.sh", keys, nil, "BUCKET=taken")
	if code != 2 || !strings.Contains(said, "expected the bucket taken to exist and to belong to the account 123456789012") || len(with(calls, "s3 "))+len(with(calls, "s3api put")) != 0 {
		t.Errorf("expected exit code 2 and the owner, got %d and %q\n%s", code, calls, said)
	}
	_, calls, code = script(t, "deploy.sh", keys, map[string]string{"bucket": ""}, "BUCKET=shared", "BUCKET_OWNER=210987654321")
	for _, call := range with(calls, "s3api ") {
		if !strings.Contains(call, "--bucket shared --expected-bucket-owner 210987654321") {
			t.Errorf("expected the owner of BUCKET_OWNER, got %s", call)
		}
	}
	if made := with(calls, "s3api "); code != 0 || len(made) != 13 {
		t.Errorf("expected exit code 0 and 13 calls of s3api, got %d and %q", code, made)
	}
}

func TestDryRunCallsNothing(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"deploy.sh": "+ aws cloudformation deploy --region REGION", "destroy.sh": "+ aws cloudformation delete-stack --region REGION --stack-name settle"} {
		said, calls, code := script(t, name, keys, nil, "DRY=1")
		if code != 0 || len(calls) != 0 || !strings.Contains(said, want) {
			t.Errorf("%s: expected %q and no calls, got exit code %d and %q\n%s", name, want, code, calls, said)
		}
	}
}

func TestDeployRejectsInvalidInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ input, env, want string }{
		{keys, "STACK=a_b", "expected STACK to be a name"},
		{keys, "STACK=blue-dlq", "expected STACK not to end in -dlq, got 'blue-dlq': blue-dlq.fifo is the dead-letter queue of the stack blue"},
		{keys, "STACK=" + strings.Repeat("a", 65), "expected STACK to be a name"},
		{"consumer consumer-1.zip SUM= zips/consumer.zip\n", "DRY=1", "expected six functions"},
		{strings.ReplaceAll(keys, " SUM=", ""), "DRY=1", "expected lines with a function, a key, a checksum and a path, got: delay"},
		{keys, "PARAMETERS=ConsumerConcurrency=20 AlarmTopics=arn:aws:sns:eu-central-1:123456789012:alarms", "with one of the names UploadBuckets AlarmTopic ConsumerConcurrency ConsumerPollers EventBus EventsPerFiveMinutes ExistingTable ReserveConsumerConcurrency TableStream GitHubWebhook Callbacks RotateEnrichCallbackKey RotateGitHubWebhookSecret, got 'AlarmTopics=arn:"},
		{keys, "PARAMETERS=AlarmTopic", "got 'AlarmTopic'"},
		{keys, "PARAMETERS=ConsumerPollers=20-3", "expected ConsumerPollers to be MINIMUM-MAXIMUM, such as 2-20, got '20-3', whose minimum exceeds its maximum"},
		{keys, "PARAMETERS=AlarmTopi.=x", "got 'AlarmTopi.=x'"},
		{keys, "PARAMETERS=-V=x", "got '-V=x'"},
		{keys, "PARAMETERS=AlarmTopic=a\nNope=b", "got 'Nope=b'"},
		{"", "DRY=", "expected six functions"},
		{keys, "PARAMETERS=CodeBucket=mine", "got 'CodeBucket=mine'"},
		{keys, "LANE_RULES=job=bulk", "expected LANES with LANE_RULES, got no lanes"},
	} {
		said, calls, code := script(t, "deploy.sh", c.input, nil, c.env)
		if code != 2 || !strings.Contains(said, c.want) || len(with(calls, "cloudformation deploy")) != 0 {
			t.Errorf("%s: expected exit code 2 and %q, got %d and\n%s", c.env, c.want, code, said)
		}
		if len(calls) != 0 {
			t.Errorf("%s: expected no call, got %q", c.env, calls)
		}
	}
}

// TestDeployExplainsAFailedFirstDeployment covers a stack that is in ROLLBACK_COMPLETE before or after the deployment.
func TestDeployExplainsAFailedFirstDeployment(t *testing.T) {
	t.Parallel()
	const deletion = "aws cloudformation delete-stack --region eu-central-1 --stack-name blue && aws cloudformation wait stack-delete-complete --region eu-central-1 --stack-name blue\n"
	const ofTable = "aws dynamodb delete-table --region eu-central-1 --table-name blue-Table-1\n"
	for _, c := range []struct {
		name           string
		files          map[string]string
		code           int
		deployed, told bool
		table          bool
	}{
		{"before", map[string]string{"status": "ROLLBACK_COMPLETE\n"}, 1, false, true, false},
		{"before, with a table", map[string]string{"status": "ROLLBACK_FAILED\n", "left": "blue-Table-1\n"}, 1, false, true, true},
		{"after", map[string]string{"refused": "ROLLBACK_COMPLETE\n", "left": "blue-Table-1\n"}, 1, true, true, true},
		{"an update", map[string]string{"status": "UPDATE_COMPLETE\n", "refused": "UPDATE_ROLLBACK_COMPLETE\n"}, 1, true, false, false},
		{"a successful update", map[string]string{"status": "UPDATE_COMPLETE\n"}, 0, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, calls, code := script(t, "deploy.sh", keys, c.files, "STACK=blue")
			if code != c.code || (len(with(calls, "cloudformation deploy")) == 1) != c.deployed || (len(with(calls, "s3api put-object")) > 0) != c.deployed {
				t.Errorf("expected exit code %d and a deployment: %v, got %d and %q\n%s", c.code, c.deployed, code, calls, said)
			}
			if strings.Contains(said, deletion) != c.told || strings.Contains(said, "its first deployment failed") != c.told || strings.Contains(said, ofTable) != c.table {
				t.Errorf("expected instructions to delete the stack: %v, and the table: %v, got\n%s", c.told, c.table, said)
			}
			if deleted := with(calls, "cloudformation delete-stack"); len(deleted) != 0 {
				t.Errorf("expected no deletion, got %q", deleted)
			}
		})
	}
}

func TestDeployPageQuotesTheScript(t *testing.T) {
	t.Parallel()
	said, _, _ := script(t, "deploy.sh", keys, map[string]string{"status": "ROLLBACK_COMPLETE\n", "left": "settle-Table-1ABCDEFGHIJKL\n"})
	page, err := os.ReadFile("../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(said, "\n") != 6 || !strings.Contains(string(page), "\n"+said+"```\n") {
		t.Errorf("expected docs/deploy.md to quote the output of infra/deploy.sh:\n%s", said)
	}
}

func TestDestroyRejectsOtherStacks(t *testing.T) {
	t.Parallel()
	said, calls, code := script(t, "destroy.sh", "", map[string]string{"bare": ""}, "STACK=blue")
	if code != 1 || !strings.Contains(said, "has none. To delete it: aws cloudformation delete-stack --region eu-central-1 --stack-name blue\n") || len(with(calls, "cloudformation delete-stack")) != 0 {
		t.Errorf("expected exit code 1 and instructions, got %d, %q and\n%s", code, calls, said)
	}
}

func TestDestroyRefusesLiveInstancesAndMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, live, waiting, want string
		env                       []string
		code                      int
	}{
		{"none", "\n\n", "0\t0\t0\n", "The table settle-Table-1 is kept", nil, 0},
		{"two", "signup/1\tjob/7\nNone\n", "0\t0\t0\n", "has live instances, such as: signup/1 job/7", nil, 1},
		{"messages", "\n", "1\t0\t2\n", "about 18 messages in its queues", nil, 1},
		{"two, by force", "signup/1\tjob/7\n", "0\t0\t0\n", "has live instances, such as: signup/1 job/7", []string{"FORCE=1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, calls, code := script(t, "destroy.sh", "", map[string]string{"live": c.live, "waiting": c.waiting}, c.env...)
			if code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("expected exit code %d and %q, got %d and\n%s", c.code, c.want, code, said)
			}
			if deleted := len(with(calls, "cloudformation delete-stack")) == 1; deleted != (c.code == 0) {
				t.Errorf("expected the stack deleted: %v, got %q", c.code == 0, calls)
			}
			if table := with(calls, "dynamodb delete-table"); len(table) != 0 {
				t.Errorf("expected the table kept, got %q", table)
			}
		})
	}
}

func TestDestroyCountsTheDeadLettersOfUploads(t *testing.T) {
	t.Parallel()
	files := map[string]string{"live": "\n", "waiting": "1\t0\t2\n", "uploads": uploads}
	if said, _, code := script(t, "destroy.sh", "", files); code != 1 || !strings.Contains(said, "about 21 messages in its queues") {
		t.Errorf("expected the messages of seven queues, got exit code %d and\n%s", code, said)
	}
}

func TestDestroyDeletesTheTableOnRequest(t *testing.T) {
	t.Parallel()
	said, calls, code := script(t, "destroy.sh", "", map[string]string{"live": "\n", "waiting": "0\n"}, "DELETE_TABLE=1")
	if table := with(calls, "dynamodb delete-table"); code != 0 || len(table) != 1 || table[0] != "dynamodb delete-table --region eu-central-1 --table-name settle-Table-1" {
		t.Errorf("expected the table deleted, got exit code %d and %q\n%s", code, calls, said)
	}
}

// retained lists the queue, the schedule group and the table that CloudFormation keeps when it deletes the stack.
const retained = "AWS::SQS::Queue\thttps://sqs.eu-central-1.amazonaws.com/123456789012/settle.fifo\nAWS::Scheduler::ScheduleGroup\tsettle\nAWS::DynamoDB::Table\tsettle-Table-1\n"

func TestDestroyAsksBeforeItEndsTheProtection(t *testing.T) {
	t.Parallel()
	const off = "aws cloudformation update-termination-protection --no-enable-termination-protection --region eu-central-1 --stack-name settle"
	for _, c := range []struct {
		answer, protected string
		env               []string
		code, switched    int
	}{
		{"settle\n", "True", nil, 0, 1},
		{"yes\n", "True", nil, 1, 0},
		{"", "True", []string{"FORCE=1"}, 1, 0},
		{"", "False", nil, 0, 0},
	} {
		said, calls, code := script(t, "destroy.sh", c.answer, map[string]string{"live": "\n", "waiting": "0\n", "protected": c.protected}, c.env...)
		if deleted := len(with(calls, "cloudformation delete-stack")) == 1; code != c.code || deleted != (c.code == 0) {
			t.Errorf("%q: expected exit code %d, and a deletion only with 0, got %d and %q\n%s", c.answer, c.code, code, calls, said)
		}
		if made := with(calls, "cloudformation update-termination-protection"); len(made) != c.switched || strings.Contains(said, off) != (c.protected == "True") {
			t.Errorf("%q: expected %d calls of %s, got %q and\n%s", c.answer, c.switched, off, made, said)
		}
	}
}

func TestDestroyDeletesRetainedQueuesUnlessMessagesArrived(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		late, env, says string
		deleted         int
	}{
		{"0\n", "FORCE=", "+ aws sqs delete-queue", 1},
		{"2\n", "FORCE=", "about 2 messages arrived in the queue https://sqs.eu-central-1.amazonaws.com/123456789012/settle.fifo", 0},
		{"2\n", "FORCE=1", "+ aws sqs delete-queue", 1},
	} {
		said, calls, code := script(t, "destroy.sh", "", map[string]string{"live": "\n", "waiting": "0\n", "late": c.late, "left": retained}, c.env)
		if queues := with(calls, "sqs delete-queue"); code != 0 || len(queues) != c.deleted || !strings.Contains(said, c.says) {
			t.Errorf("%s: expected %d queues deleted and %q, got exit code %d and %q\n%s", c.env, c.deleted, c.says, code, queues, said)
		}
		if groups, tables := with(calls, "scheduler delete-schedule-group"), with(calls, "dynamodb delete-table"); len(groups) != 1 || len(tables) != 0 {
			t.Errorf("expected the schedule group deleted and the table kept, got %q and %q", groups, tables)
		}
	}
}

// TestDeployReadsItsInputBeforeItFails runs deploy.sh with an invalid stack name and with more input than the pipe's
// buffer holds. deploy.sh must read all of the input, so that the writer does not get a broken pipe.
func TestDeployReadsItsInputBeforeItFails(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "bash", "-c", `set -o pipefail; yes "consumer consumer-1.zip SUM= zips/consumer.zip" 2>&1 | head -100000 | STACK=a_b bash deploy.sh; echo "${PIPESTATUS[@]:1}"`)
	output, err := command.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(output), "\n0 2\n") {
		t.Errorf("expected exit codes 0 of head and 2 of deploy.sh, got %v and\n%s", err, output)
	}
}
