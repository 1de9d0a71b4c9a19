package cdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// TestLongestNameIsAccepted checks all resource names that derive from the longest Props.Name.
func TestLongestNameIsAccepted(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", cdk.NameCharactersMax)
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.Name, p.UploadBuckets, p.Lanes = &longest, []*string{jsii.String("sales-uploads")}, []cdk.Lane{{Name: "priority-1"}}
		cdk.NewSettle(stack, "Settle", p)
	})
	// The limits are from the SQS Developer Guide, "Queue quotas", and from the field Name in the API References of
	// EventBridge Scheduler and API Gateway.
	limits := map[string]int{"QueueName": 80, "AWS::Scheduler::ScheduleGroup": 64, "AWS::ApiGatewayV2::Api": 128}
	seen := 0
	for id, resource := range resources {
		for _, property := range []string{"Name", "QueueName", "FunctionName", "RoleName", "AlarmName", "DashboardName", "LogGroupName", "StateMachineName", "TableName"} {
			name, _ := resource.Properties[property].(string)
			if !strings.HasPrefix(name, longest) {
				continue
			}
			seen++
			limit := max(limits[property], limits[resource.Type])
			if len(name) > limit {
				t.Errorf("%s: expected a %s of at most %d characters, got %d", id, property, limit, len(name))
			}
		}
	}
	if want := 8 + 1 + 1; seen != want {
		t.Errorf("expected %d names of queues, the schedule group and the API, got %d", want, seen)
	}
}

func TestTwoConstructsInOneStack(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		for _, name := range []string{"blue", "green"} {
			p := props()
			p.Name = jsii.String(name)
			cdk.NewSettle(stack, name, p)
		}
	})
	names := map[string]string{}
	for id, resource := range resources {
		if resource.Type == "AWS::SQS::Queue" {
			name := fmt.Sprint(resource.Properties["QueueName"])
			if other, taken := names[name]; taken {
				t.Errorf("expected unique queue names, got %s for %s and %s", name, id, other)
			}
			names[name] = id
		}
	}
	if names["blue.fifo"] == "" || names["green-delay-dlq"] == "" || len(names) != 12 {
		t.Errorf("expected twelve queues with their construct's name, got %v", names)
	}
}

// mine returns a reference to a secret that is not generated.
func mine() awscdk.SecretValue { return awscdk.SecretValue_SecretsManager(jsii.String("mine"), nil) }

// TestSecretsAreRotated rotates the generated callback key and a given webhook secret.
func TestSecretsAreRotated(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.Secrets.RotateEnrichCallbackKey = true
		p.Secrets.GitHubWebhook = mine()
		p.Secrets.GitHubWebhookPrevious = awscdk.SecretValue_SecretsManager(jsii.String("mine"), &awscdk.SecretsManagerSecretOptions{VersionStage: jsii.String("AWSPREVIOUS")})
		cdk.NewSettle(stack, "Settle", p)
	})
	gateway := environment(t, resources, "Gateway")
	if now, before := gateway["SETTLE_GITHUB_WEBHOOK_SECRET"], gateway["SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS"]; now != "{{resolve:secretsmanager:mine:SecretString:::}}" ||
		before != "{{resolve:secretsmanager:mine:SecretString::AWSPREVIOUS:}}" {
		t.Errorf("webhook secrets: expected the given ones, got %v and %v", now, before)
	}
	for _, function := range []string{"Consumer", "Gateway"} {
		variables := environment(t, resources, function)
		now, before := fmt.Sprint(variables["SETTLE_ENRICH_CALLBACK_KEY"]), fmt.Sprint(variables["SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS"])
		if !strings.Contains(now, ":SecretString::AWSPENDING:}}") || !strings.Contains(before, ":SecretString:::}}") {
			t.Errorf("%s: expected the versions AWSPENDING and AWSCURRENT, got %s and %s", function, now, before)
		}
	}
	if got := environment(t, resources, "Consumer")["SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS"]; got != nil {
		t.Errorf("expected no webhook secret for the consumer, got %v", got)
	}
}

func TestInvalidPropsAreRejected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*cdk.Props)
		want   string
	}{
		{func(p *cdk.Props) { p.Code = nil }, "expected Props.Code, got none"},
		{func(p *cdk.Props) { p.ConsumerTimeout = 16 * time.Minute }, "got 16m0s"},
		{func(p *cdk.Props) { p.ConsumerTimeout = 1500 * time.Millisecond }, "got 1.5s"},
		{func(p *cdk.Props) { p.ConsumerConcurrency = 1 }, "from 2 to 1000, got 1"},
		{func(p *cdk.Props) { p.ConsumerPollers.Maximum, p.ConsumerConcurrency = 20, 50 }, "expected Props.ConsumerConcurrency or Props.ConsumerPollers, got both"},
		{func(p *cdk.Props) { p.ConsumerPollers.Minimum = 2 }, "ConsumerPollers.Maximum from 2 to 10000, got 0"},
		{func(p *cdk.Props) { p.ConsumerPollers.Maximum = 10_001 }, "ConsumerPollers.Maximum from 2 to 10000, got 10001"},
		{func(p *cdk.Props) { p.ConsumerPollers = cdk.Pollers{Minimum: 1, Maximum: 20} }, "ConsumerPollers.Minimum from 2 to 20, got 1"},
		{func(p *cdk.Props) { p.ConsumerPollers = cdk.Pollers{Minimum: 21, Maximum: 20} }, "ConsumerPollers.Minimum from 2 to 20, got 21"},
		{func(p *cdk.Props) { p.ConsumerPollers = cdk.Pollers{Minimum: 201, Maximum: 300} }, "ConsumerPollers.Minimum from 2 to 200, got 201"},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "main"}} }, "expected no lane named main in Props.Lanes"},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "Bulk"}} }, `at most 32 characters, got "Bulk"`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: ""}} }, `at most 32 characters, got ""`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "a--b"}} }, `at most 32 characters, got "a--b"`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: strings.Repeat("a", 33)}} }, `at most 32 characters, got "aaa`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "dlq"}} }, `not to be named dlq or to end in -dlq, as dead-letter queues do, got "dlq"`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "bulk-dlq"}} }, `got "bulk-dlq"`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "bulk"}, {Name: "bulk"}} }, `got "bulk" after another such lane`},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "a-1"}, {Name: "a1"}} }, `got "a1" after another such lane`},
		{func(p *cdk.Props) { p.Lanes = make([]cdk.Lane, 10) }, "expected at most 9 lanes in Props.Lanes"},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "bulk", Concurrency: 1}} }, "expected Props.Lanes[bulk].Concurrency from 2 to 1000, got 1"},
		{func(p *cdk.Props) {
			p.Lanes = []cdk.Lane{{Name: "bulk", Concurrency: 10, Pollers: cdk.Pollers{Maximum: 20}}}
		}, "expected Props.Lanes[bulk].Concurrency or Props.Lanes[bulk].Pollers, got both"},
		{func(p *cdk.Props) { p.Lanes = []cdk.Lane{{Name: "bulk", Pollers: cdk.Pollers{Minimum: 2}}} }, "Lanes[bulk].Pollers.Maximum from 2 to 10000, got 0"},
		{func(p *cdk.Props) { p.LaneRules = jsii.String("job=bulk") }, "expected Props.Lanes with Props.LaneRules, got no lanes"},
		{func(p *cdk.Props) {
			p.Name, p.Lanes = jsii.String(strings.Repeat("a", 64)), []cdk.Lane{{Name: strings.Repeat("b", 11)}}
		}, "expected queue names of at most 80 characters, got 81"},
		{func(p *cdk.Props) {
			p.Lanes, p.Environment = []cdk.Lane{{Name: "bulk"}}, map[string]string{"SETTLE_LANES": "bulk=arn"}
		}, "expected no SETTLE_LANES in Props.Environment"},
		{func(p *cdk.Props) { p.ConsumerBatch = 11 }, "ConsumerBatch from 1 to 10, got 11"},
		{func(p *cdk.Props) { p.WebhooksPerSecond = -1 }, "WebhooksPerSecond from 1 to 2500, got -1"},
		{func(p *cdk.Props) { p.EventsPerFiveMinutes = -1 }, "EventsPerFiveMinutes from 1 to 210000000, got -1"},
		{func(p *cdk.Props) { p.MemoryMiB = 64 }, "from 128 to 10240, got 64"},
		{func(p *cdk.Props) { p.Workflows = map[string]awsstepfunctions.IStateMachine{"a=b": nil} }, `got "a=b"`},
		{func(p *cdk.Props) { p.UploadBuckets = []*string{jsii.String("arn:aws:s3:::sales")} }, `got "arn:aws:s3:::sales"`},
		{func(p *cdk.Props) { p.CallbackBase = "https://api.example.com/" }, "expected Props.CallbackBase such as https://api.example.com/settle, without a slash at its end"},
		{func(p *cdk.Props) { p.CallbackBase = "http://api.example.com" }, `got "http://api.example.com"`},
		{func(p *cdk.Props) { p.CallbackBase = "https://api.example.com/a//b" }, `without empty and dot segments, got "https://api.example.com/a//b"`},
		{func(p *cdk.Props) { p.CallbackBase = "https://api.example.com/a/../b" }, `without empty and dot segments, got "https://api.example.com/a/../b"`},
		{func(p *cdk.Props) { p.CallbackBase = "https://api.example.com/machines" }, `got "https://api.example.com/machines": choose another API mapping`},
		{func(p *cdk.Props) { p.CallbackBase = "https://api.example.com/webhooks/v1" }, "choose another API mapping"},
		{func(p *cdk.Props) { p.ExistingTable = jsii.String("arn:aws:dynamodb:::table/a") }, "expected Props.ExistingTable to be the name of a table, not its ARN"},
		{func(p *cdk.Props) { p.ExistingTable, p.TableStream = jsii.String("restored"), true }, "expected no Props.TableStream with Props.ExistingTable, got both"},
		{func(p *cdk.Props) { p.Name = jsii.String(strings.Repeat("a", 65)) }, "at most 64 characters, the limit of schedule groups, got 65"},
		{func(p *cdk.Props) { p.Name = jsii.String("") }, `as required for queues, got ""`},
		{func(p *cdk.Props) { p.Name = jsii.String("orders.blue") }, `as required for queues, got "orders.blue"`},
		{func(p *cdk.Props) { p.Name = jsii.String("orders-dlq") }, `expected Props.Name, or else the stack's name, not to end in -dlq, got "orders-dlq"`},
		{func(p *cdk.Props) { p.Environment = map[string]string{"SETTLE_SERVICE": "mine"} }, "expected no SETTLE_SERVICE in Props.Environment"},
		{func(p *cdk.Props) {
			p.Environment = map[string]string{"SETTLE_ENRICH_CALLBACK_BASE": "https://api.example.com"}
		}, "expected no SETTLE_ENRICH_CALLBACK_BASE in Props.Environment"},
		{func(p *cdk.Props) { p.Secrets.EnrichCallbackKeyPrevious = mine() }, "expected Secrets.EnrichCallbackKey with Secrets.EnrichCallbackKeyPrevious, got none"},
		{func(p *cdk.Props) { p.Secrets.RotateGitHubWebhook, p.WithoutExamples = true, true }, "expected Secrets.RotateGitHubWebhook only for a generated secret"},
		{func(p *cdk.Props) { p.Secrets.RotateEnrichCallbackKey, p.Secrets.EnrichCallbackKey = true, mine() }, "expected Secrets.RotateEnrichCallbackKey only for a generated secret"},
		{func(p *cdk.Props) { p.Code = cdk.CodeFromFolder("nowhere", "neither") }, `expected consumer/bootstrap in one of the folders ["nowhere" "neither"]`},
	} {
		said := func() (said any) {
			defer func() { said = recover() }()
			synthesized(t, func(stack awscdk.Stack) {
				p := props()
				c.change(&p)
				cdk.NewSettle(stack, "Settle", p)
			})
			return nil
		}()
		if !strings.Contains(fmt.Sprint(said), c.want) {
			t.Errorf("expected a panic containing %q, got %v", c.want, said)
		}
	}
}
