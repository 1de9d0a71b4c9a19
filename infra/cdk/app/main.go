// Command app is a CDK app with one stack of Settle, for `make deploy-cdk`. It reads these values from its context:
//
//	stack        the stack's name; settle by default
//	functions    the folder of the built functions; several are separated by commas, your own first
//	buckets      the S3 buckets whose uploads become events of the machine upload, separated by commas; none by default
//	own          true if the consumer hosts your own machines; the stack then has no examples
//	callbacks    on adds the open route for callbacks, if own is true and your gateway accepts them; off by default
//	alarms       the ARN of an SNS topic for alarms; by default, alarms are only shown in the console
//	bus          the name of the event bus for the events that charts emit; if unset, default; none drops the events
//	table        the name of an existing table to use, such as a restored one; by default, the stack has its own
//	stream       on adds a stream to the table; off by default
//	rotate       the generated secrets that are rotated, separated by commas: callbacks, github; none by default
//	concurrency  the maximum number of batches of events processed at once; 50 by default
//	pollers      event pollers that Lambda keeps ready, MINIMUM-MAXIMUM, such as 2-20, in place of concurrency; none by default
//	lanes        all lanes with their concurrency or pollers, as in "main:50 bulk:10 priority:2-20", in place of concurrency and
//	             pollers; by default, the stack has only the main lane
//	lane-rules   the rules that assign new instances to lanes; by default, all are in the main lane
//	reserve      on reserves concurrency for this number of batches, or for the pollers, of all lanes; off by default
//	events       the threshold of the alarm on the events of five minutes; 30,000 by default
//
// The stack has the outputs of infra/template.yaml, and termination protection: `make destroy` asks before it switches
// the protection off.
package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	fill(app)
	app.Synth(nil)
}

// fill adds the stack that the app's context describes.
func fill(app awscdk.App) {
	stack := awscdk.NewStack(app, jsii.String(context(app, "stack", "settle")), &awscdk.StackProps{TerminationProtection: jsii.Bool(true)})
	folders := strings.Split(context(app, "functions", "../../.bin/functions/arm64"), ",")
	props := cdk.Props{
		Code:            cdk.CodeFromFolder(folders[0], folders[1:]...),
		WithoutExamples: context(app, "own", "") == "true",
	}
	if buckets := context(app, "buckets", ""); buckets != "" {
		props.UploadBuckets = *jsii.Strings(strings.Split(buckets, ",")...)
	}
	if topic := context(app, "alarms", ""); topic != "" {
		if !strings.HasPrefix(topic, "arn:") {
			panic(fmt.Sprintf("expected alarms to be the ARN of an SNS topic, got %q", topic))
		}
		props.AlarmActions = []*string{&topic}
	}
	if table := context(app, "table", ""); table != "" {
		props.ExistingTable = &table
	}
	props.TableStream, props.ReserveConsumerConcurrency = isOn(app, "stream"), isOn(app, "reserve")
	props.Callbacks = isOn(app, "callbacks")
	for secret := range strings.SplitSeq(context(app, "rotate", ""), ",") {
		switch secret {
		case "callbacks":
			props.Secrets.RotateEnrichCallbackKey = true
		case "github":
			props.Secrets.RotateGitHubWebhook = true
		case "":
		default:
			panic(fmt.Sprintf("expected rotate to be callbacks, github or both separated by a comma, got %q", secret))
		}
	}
	switch bus := context(app, "bus", "default"); bus {
	case "none":
		props.WithoutEventBus = true
	default:
		props.EventBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), &bus)
	}
	props.ConsumerConcurrency = number(app, "concurrency", cdk.ConsumerConcurrencyMin, cdk.ConsumerConcurrencyMax)
	props.ConsumerPollers = pollers(app)
	if lanes := context(app, "lanes", ""); lanes != "" {
		if err := props.SetLanes(lanes); err != nil {
			panic(err)
		}
	}
	if rules := context(app, "lane-rules", ""); rules != "" {
		props.LaneRules = &rules
	}
	props.EventsPerFiveMinutes = number(app, "events", 1, cdk.EventsPerFiveMinutesMax)
	cdk.NewSettle(stack, "Settle", props).AddOutputs()
}

// isOn reads a value that is on or off. It is off by default.
func isOn(app awscdk.App, key string) bool {
	value := context(app, key, "off")
	if value != "on" && value != "off" {
		panic(fmt.Sprintf("expected %s to be on or off, got %q", key, value))
	}
	return value == "on"
}

// number reads a number. Without a value, it returns 0, so Props uses its default.
func number(app awscdk.App, key string, least, most int) int {
	text := context(app, key, "")
	if text == "" {
		return 0
	}
	value, err := strconv.Atoi(text)
	if err != nil || value == 0 {
		panic(fmt.Sprintf("expected %s to be a number from %d to %d, got %q", key, least, most, text))
	}
	return value
}

// pollers reads the minimum and the maximum number of event pollers, MINIMUM-MAXIMUM. Without a value, it returns none.
func pollers(app awscdk.App) cdk.Pollers {
	text := context(app, "pollers", "")
	if text == "" {
		return cdk.Pollers{}
	}
	minimum, maximum, _ := strings.Cut(text, "-")
	least, err := strconv.Atoi(minimum)
	most, errMost := strconv.Atoi(maximum)
	if err != nil || errMost != nil || least == 0 || most == 0 {
		panic(fmt.Sprintf("expected pollers to be MINIMUM-MAXIMUM, such as 2-20, got %q", text))
	}
	return cdk.Pollers{Minimum: least, Maximum: most}
}

// context returns a value of `cdk -c key=value`. An empty value counts as unset.
func context(app awscdk.App, key, otherwise string) string {
	if value, ok := app.Node().TryGetContext(&key).(string); ok && value != "" {
		return value
	}
	return otherwise
}
