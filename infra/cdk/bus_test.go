package cdk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// TestOnlyTheConsumerPublishesOnTheBus sets the bus by name, by ARN, by default and not at all.
func TestOnlyTheConsumerPublishesOnTheBus(t *testing.T) {
	t.Parallel()
	const elsewhere = "arn:aws:events:eu-central-1:999999999999:event-bus/orders"
	for _, c := range []struct {
		name          string
		change        func(awscdk.Stack, *cdk.Props)
		variable, arn string
	}{
		{"default", func(awscdk.Stack, *cdk.Props) {}, "default", ":event-bus/default"},
		{"name", func(stack awscdk.Stack, p *cdk.Props) {
			p.EventBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), jsii.String("orders"))
		}, "orders", ":event-bus/orders"},
		{"ARN", func(stack awscdk.Stack, p *cdk.Props) {
			p.EventBus = awsevents.EventBus_FromEventBusArn(stack, jsii.String("Bus"), jsii.String(elsewhere))
		}, elsewhere, elsewhere},
		{"none", func(_ awscdk.Stack, p *cdk.Props) { p.WithoutEventBus = true }, "<nil>", ""},
	} {
		resources := synthesized(t, func(stack awscdk.Stack) {
			p := props()
			c.change(stack, &p)
			cdk.NewSettle(stack, "Settle", p)
		})
		if got := fmt.Sprint(environment(t, resources, "Consumer")["SETTLE_EVENT_BUS"]); got != c.variable {
			t.Errorf("%s: expected SETTLE_EVENT_BUS to be %s, got %s", c.name, c.variable, got)
		}
		if got := allowed(t, resources, "Consumer", "events:PutEvents"); (got == "") != (c.arn == "") || !strings.Contains(got, c.arn) {
			t.Errorf("%s: expected events:PutEvents on %q, got %s", c.name, c.arn, got)
		}
		for _, function := range []string{"Gateway", "Delay", "Executions", "Tokentask"} {
			if got := allowed(t, resources, function, "events:PutEvents"); got != "" {
				t.Errorf("%s: expected no events:PutEvents for %s, got %s", c.name, function, got)
			}
		}
	}
}

func TestABusAndNoBusAreRejected(t *testing.T) {
	t.Parallel()
	said := func() (said any) {
		defer func() { said = recover() }()
		synthesized(t, func(stack awscdk.Stack) {
			p := props()
			p.EventBus, p.WithoutEventBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), jsii.String("orders")), true
			cdk.NewSettle(stack, "Settle", p)
		})
		return nil
	}()
	if !strings.Contains(fmt.Sprint(said), "expected Props.EventBus or Props.WithoutEventBus, got both") {
		t.Errorf("expected a panic, got %v", said)
	}
}
