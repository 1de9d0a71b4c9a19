// Command app is a CDK app with one stack of Settle, for those who deploy by CDK: `make deploy-cdk`. Its context has
//
//	stack        the stack's name; settle by default
//	functions    the folder of the built functions; several with commas between them, those of one's own first
//	buckets      the buckets whose uploads become events of the machine upload, with commas between them; none by default
//	own          true if the consumer hosts machines of one's own: the stack has no examples then
//	alarms       the ARN of an SNS topic that alarms are sent to; none by default: they are only shown
//	concurrency  how many batches of events are handled at once at most; 50 by default
//
// The stack has the outputs of infra/template.yaml.
package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	fill(app)
	app.Synth(nil)
}

// fill adds the stack that the app's context asks for.
func fill(app awscdk.App) {
	stack := awscdk.NewStack(app, jsii.String(context(app, "stack", "settle")), nil)
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
			panic(fmt.Sprintf("expected the ARN of an SNS topic as alarms, got %q", topic))
		}
		props.AlarmActions = []*string{&topic}
	}
	if text := context(app, "concurrency", ""); text != "" {
		concurrency, err := strconv.Atoi(text)
		if err != nil || concurrency == 0 { // 0 would be the default
			panic(fmt.Sprintf("expected a number from %d to %d as concurrency, got %q", cdk.ConsumerConcurrencyMin, cdk.ConsumerConcurrencyMax, text))
		}
		props.ConsumerConcurrency = concurrency
	}
	cdk.NewSettle(stack, "Settle", props).AddOutputs()
}

// context returns a value of `cdk -c key=value`; what is empty counts as not given.
func context(app awscdk.App, key, otherwise string) string {
	if value, ok := app.Node().TryGetContext(&key).(string); ok && value != "" {
		return value
	}
	return otherwise
}
