package cdk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// laneMistakes are mistakes in the template with lanes.
var laneMistakes = []mistake{
	{"the queue of a lane is limited as a whole", func(e *editor) { e.set("perQueue", "LaneBulkQueue", "FifoThroughputLimit") },
		map[string]string{byProperties: "LaneBulkQueue/Properties/FifoThroughputLimit", byGuard: "fifo_queues_have_high_throughput"}},
	{"the queue of a lane has no dead-letter queue", func(e *editor) { e.drop("LaneBulkQueue", "RedrivePolicy") },
		map[string]string{byProperties: "LaneBulkQueue/Properties/RedrivePolicy", byGuard: "queues_have_or_are_dead_letter_queues"}},
	{"a lane may not use the dead-letter queue", func(e *editor) {
		policy := e.resource("DeadLetterQueue")["Properties"].(object)["RedriveAllowPolicy"].(object)
		policy["sourceQueueArns"] = policy["sourceQueueArns"].([]any)[:2]
	}, map[string]string{byProperties: "DeadLetterQueue/Properties/RedriveAllowPolicy/sourceQueueArns"}},
	{"a lane that is removed loses its messages", func(e *editor) { delete(e.resource("LaneBulkQueue"), "DeletionPolicy") },
		map[string]string{byProperties: "LaneBulkQueue/DeletionPolicy", byGuard: "queues_and_schedules_are_kept"}},
	{"the queue of a lane accepts requests without TLS", func(e *editor) { e.remove("LaneBulkQueuePolicy") },
		map[string]string{byProperties: "/Resources/LaneBulkQueuePolicy"}},
	{"no function receives from a lane", func(e *editor) { e.remove("LaneBulkMapping") },
		map[string]string{byProperties: "/Resources/LaneBulkMapping"}},
	{"the mapping of a lane reads the main queue", func(e *editor) {
		e.set(object{"Fn::GetAtt": []any{"Queue", "Arn"}}, "LaneBulkMapping", "EventSourceArn")
	}, map[string]string{byProperties: "LaneBulkMapping/Properties/EventSourceArn"}},
	{"a lane has the concurrency of another lane", func(e *editor) { e.set(40, "LaneBulkMapping", "ScalingConfig", "MaximumConcurrency") },
		map[string]string{byProperties: "LaneBulkMapping/Properties/ScalingConfig/MaximumConcurrency"}},
	{"the reservation leaves out the lanes", func(e *editor) {
		e.resource("Consumer")["Properties"].(object)["ReservedConcurrentExecutions"].(object)["Fn::If"].([]any)[1] = 40
	}, map[string]string{byProperties: "Consumer/Properties/ReservedConcurrentExecutions/Fn::If/1"}},
	{"a sender does not know the lanes", func(e *editor) { e.drop("Delay", "Environment", "Variables", "SETTLE_LANES") },
		map[string]string{byProperties: "Delay/Properties/Environment/Variables"}},
	{"a sender does not know the rules of the lanes", func(e *editor) { e.drop("Objects", "Environment", "Variables", "SETTLE_LANE_RULES") },
		map[string]string{byProperties: "Objects/Properties/Environment/Variables"}},
	{"a sender may not send to a lane", func(e *editor) { e.lanesOf("TokentaskRole").shorten("Resource") },
		map[string]string{byProperties: "TokentaskRole/Properties/Permissions"}},
	{"the consumer may not delay a retry in a lane", func(e *editor) { e.lanesOf("ConsumerRole").shorten("Action") },
		map[string]string{byProperties: "ConsumerRole/Properties/Permissions"}},
	{"the gateway may receive from a lane", func(e *editor) {
		e.lanesOf("GatewayRole").statement["Action"] = []any{"sqs:SendMessage", "sqs:ReceiveMessage"}
	},
		map[string]string{byProperties: "GatewayRole/Properties/Permissions"}},
	{"a lane without a consumer rings no alarm", func(e *editor) { e.remove("LaneBulkOldestMessageAlarm") },
		map[string]string{byProperties: "/Resources/LaneBulkOldestMessageAlarm"}},
	{"the alarm of a lane watches the main queue", func(e *editor) {
		e.set([]any{object{"Name": "QueueName", "Value": object{"Fn::GetAtt": []any{"Queue", "QueueName"}}}}, "LaneBulkOldestMessageAlarm", "Dimensions")
	}, map[string]string{byProperties: "LaneBulkOldestMessageAlarm/Properties/Dimensions"}},
	{"the dashboard leaves out the messages of a lane", func(e *editor) {
		e.replace(`"ApproximateNumberOfMessagesVisible","QueueName","${LaneBulkQueue.`, `"ApproximateNumberOfMessagesVisible","QueueName","${Queue.`, "Dashboard", "DashboardBody", "Fn::Sub")
	}, map[string]string{byProperties: "Dashboard/Properties/DashboardBody"}},
	{"the output of the lanes lacks a lane", func(e *editor) {
		e.output("Lanes")["Value"] = object{"Fn::Sub": "bulk=${LaneBulkQueue.Arn}"}
	}, map[string]string{byProperties: "/Outputs/Lanes/Value"}},
}

// laneStatement is the statement of a role on the queues of the lanes.
type laneStatement struct {
	*editor
	statement object
}

func (e *editor) lanesOf(role string) laneStatement {
	e.t.Helper()
	statements, _ := at(e.resource(role), "Properties", "Policies", 0, "PolicyDocument", "Statement").([]any)
	for _, statement := range statements {
		if strings.Contains(fmt.Sprint(statement.(object)["Resource"]), "LaneBulkQueue") {
			return laneStatement{e, statement.(object)}
		}
	}
	e.t.Fatalf("%s has no statement on the lanes", role)
	return laneStatement{}
}

// shorten removes the second-to-last element of a list of the statement.
func (s laneStatement) shorten(key string) {
	s.t.Helper()
	list, _ := s.statement[key].([]any)
	if len(list) < 2 {
		s.t.Fatalf("expected several elements, got %v", s.statement[key])
	}
	s.statement[key] = slices.Delete(list, len(list)-2, len(list)-1)
}

// TestLanesFollowTheMainQueue checks lanes with props that the template with lanes does not use.
func TestLanesFollowTheMainQueue(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.Name, p.ConsumerBatch, p.ConsumerTimeout, p.Removal = jsii.String("blue"), 1, 90*time.Second, awscdk.RemovalPolicy_DESTROY
		p.Lanes, p.ReserveConsumerConcurrency = []cdk.Lane{{Name: "bulk"}, {Name: "vip", Pollers: cdk.Pollers{Maximum: 3}}}, true
		settle := cdk.NewSettle(stack, "Settle", p)
		if len(settle.Lanes) != 2 || p.Lanes[0].Concurrency != 0 {
			t.Errorf("expected the queues of both lanes and unchanged props, got %v and %v", settle.Lanes, p.Lanes)
		}
	})
	_, main := find(t, resources, "AWS::SQS::Queue", "SettleQueue")
	for prefix, name := range map[string]string{"SettleLaneBulkQueue": "blue-bulk.fifo", "SettleLaneVipQueue": "blue-vip.fifo"} {
		_, queue := find(t, resources, "AWS::SQS::Queue", prefix)
		if queue.Properties["QueueName"] != name || queue.DeletionPolicy != "Delete" {
			t.Errorf("%s: expected the name %s and the removal of Props, got %v", prefix, name, queue)
		}
		queue.Properties["QueueName"] = main.Properties["QueueName"]
		if !reflect.DeepEqual(queue.Properties, main.Properties) {
			t.Errorf("%s: expected the properties of the main queue, %v, got %v", prefix, main.Properties, queue.Properties)
		}
	}
	for _, lane := range []string{"Bulk", "Vip"} {
		if _, mapping := find(t, resources, "AWS::Lambda::EventSourceMapping", "SettleLane"+lane+"Mapping"); mapping.Properties["BatchSize"] != 1. {
			t.Errorf("%s: expected the batch size of the consumer, got %v", lane, mapping.Properties)
		}
	}
	if got := resources[functionID(t, resources, "Consumer")].Properties["ReservedConcurrentExecutions"]; got != 50.+50+30 {
		t.Errorf("expected a reservation of 50 + 50 + 30, got %v", got)
	}
	if got := environment(t, resources, "Tokentask")["SETTLE_LANE_RULES"]; got != nil {
		t.Errorf("expected no rules, got %v", got)
	}
}

// TestLaneRulesAreChecked checks the rules of testdata/lane-rules.json, with the lanes a, b and c.
func TestLaneRulesAreChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/lane-rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ Valid, Invalid []string }
	if err := json.Unmarshal(text, &cases); err != nil || len(cases.Valid) < 3 || len(cases.Invalid) < 3 {
		t.Fatalf("expected valid and invalid rules, got %v, %v", cases, err)
	}
	check := func(rules string) (said any) {
		defer func() { said = recover() }()
		synthesized(t, func(stack awscdk.Stack) {
			p := props()
			p.Lanes, p.LaneRules = []cdk.Lane{{Name: "a"}, {Name: "b"}, {Name: "c"}}, &rules
			cdk.NewSettle(stack, "Settle", p)
		})
		return nil
	}
	for _, rules := range cases.Valid {
		if said := check(rules); said != nil {
			t.Errorf("%q: expected no panic, got %v", rules, said)
		}
	}
	for _, rules := range cases.Invalid {
		if said := fmt.Sprint(check(rules)); !strings.Contains(said, "Props.LaneRules") {
			t.Errorf("%q: expected a panic about Props.LaneRules, got %s", rules, said)
		}
	}
	if said := fmt.Sprint(check("job=a|d")); !strings.Contains(said, `expected one of the lanes main, a, b, c in Props.LaneRules, got "d" in "job=a|d"`) {
		t.Errorf("expected a panic that names the lanes, got %s", said)
	}
}

func TestLanesAreParsed(t *testing.T) {
	t.Parallel()
	var p cdk.Props
	if err := p.SetLanes(" bulk:10  main:2-20 priority x:3-4"); err != nil {
		t.Fatal(err)
	}
	want := []cdk.Lane{{Name: "bulk", Concurrency: 10}, {Name: "priority"}, {Name: "x", Pollers: cdk.Pollers{Minimum: 3, Maximum: 4}}}
	if !reflect.DeepEqual(p.Lanes, want) || p.ConsumerConcurrency != 0 || p.ConsumerPollers != (cdk.Pollers{Minimum: 2, Maximum: 20}) {
		t.Errorf("expected %v and pollers for the main lane, got %v, %d and %v", want, p.Lanes, p.ConsumerConcurrency, p.ConsumerPollers)
	}
	for text, want := range map[string]string{
		"": "expected main and at least one other lane", "bulk:10": "expected main", "main:10": "at least one other lane", "main main bulk": "the main lane once",
		"main bulk:": `got "bulk:"`, "main bulk:0": `got "bulk:0"`, "main bulk:x": `got "bulk:x"`, "main bulk:2-": `got "bulk:2-"`, "main bulk:0-4": `got "bulk:0-4"`,
	} {
		if err := new(cdk.Props).SetLanes(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: expected an error containing %q, got %v", text, want, err)
		}
	}
	if err := (&cdk.Props{ConsumerConcurrency: 5}).SetLanes("main:10 bulk"); err == nil {
		t.Error("expected an error, because ConsumerConcurrency is set too")
	}
}
