// Command app is a CDK app with one stack of Settle, for those who deploy by CDK: `make deploy-cdk`. Its context has the stack's
// name and the folder of the built functions.
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String(context(app, "stack", "settle")), nil)
	cdk.NewSettle(stack, "Settle", cdk.Props{
		Code: cdk.CodeFromFolder(context(app, "functions", "../../.bin/functions/arm64")),
	})
	app.Synth(nil)
}

// context returns a value of `cdk -c key=value`.
func context(app awscdk.App, key, otherwise string) string {
	if value, ok := app.Node().TryGetContext(&key).(string); ok {
		return value
	}
	return otherwise
}
