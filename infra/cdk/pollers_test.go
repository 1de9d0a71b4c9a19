package cdk_test

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/settle-run/settle/infra/cdk"
)

// TestPollersReplaceTheMaximumConcurrency covers a stack with and without pollers. Only the consumer's mapping has
// pollers, and the reservation covers all of their invocations.
func TestPollersReplaceTheMaximumConcurrency(t *testing.T) {
	t.Parallel()
	empty := map[string]any{"MaximumConcurrency": map[string]any{"Ref": "AWS::NoValue"}}
	for _, c := range []struct {
		pollers             cdk.Pollers
		scaling, pollersOut any
		reserved            float64
	}{
		{cdk.Pollers{}, map[string]any{"MaximumConcurrency": 50.}, nil, 50},
		{cdk.Pollers{Maximum: 20}, empty, map[string]any{"MinimumPollers": 2., "MaximumPollers": 20.}, 200},
		{cdk.Pollers{Minimum: 200, Maximum: 10_000}, empty, map[string]any{"MinimumPollers": 200., "MaximumPollers": 10_000.}, 100_000},
	} {
		resources := synthesized(t, func(stack awscdk.Stack) {
			p := props()
			p.ConsumerPollers, p.ReserveConsumerConcurrency = c.pollers, true
			cdk.NewSettle(stack, "Settle", p)
		})
		_, consumer := find(t, resources, "AWS::Lambda::EventSourceMapping", "SettleConsumerMapping")
		if got := consumer.Properties["ScalingConfig"]; !reflect.DeepEqual(got, c.scaling) {
			t.Errorf("%v: expected the scaling %v, got %v", c.pollers, c.scaling, got)
		}
		if got := consumer.Properties["ProvisionedPollerConfig"]; !reflect.DeepEqual(got, c.pollersOut) {
			t.Errorf("%v: expected the pollers %v, got %v", c.pollers, c.pollersOut, got)
		}
		if got := resources[functionID(t, resources, "Consumer")].Properties["ReservedConcurrentExecutions"]; got != c.reserved {
			t.Errorf("%v: expected a reservation of %v, got %v", c.pollers, c.reserved, got)
		}
		for _, name := range []string{"Delay", "Executions"} {
			_, mapping := find(t, resources, "AWS::Lambda::EventSourceMapping", "Settle"+name+"Mapping")
			if scaling, _ := mapping.Properties["ScalingConfig"].(map[string]any); mapping.Properties["ProvisionedPollerConfig"] != nil || scaling["MaximumConcurrency"] != 10. {
				t.Errorf("%v: expected no pollers for %s, got %v", c.pollers, name, mapping.Properties)
			}
		}
	}
}

// TestTheParameterAcceptsOnlyPollersInLambdasLimits checks the pattern of ConsumerPollers. The
// reservation appends a zero to the maximum, so the pattern accepts only plain decimal numbers.
func TestTheParameterAcceptsOnlyPollersInLambdasLimits(t *testing.T) {
	t.Parallel()
	if cdk.PollerInvocations != 10 {
		t.Errorf("expected ten invocations a poller, because the template appends a zero, got %d", cdk.PollerInvocations)
	}
	pattern, _ := at(committed(t)["Parameters"], "ConsumerPollers", "AllowedPattern").(string)
	allowed := regexp.MustCompile(pattern)
	for value, want := range map[string]bool{
		"": true, "2-2": true, "2-20": true, "9-10": true, "10-99": true, "99-100": true, "100-999": true, "199-9999": true, "200-10000": true,
		"1-20": false, "0-20": false, "201-300": false, "1000-2000": false, "2-1": false, "2-0": false, "2-10001": false, "2-20000": false,
		"02-20": false, "2-020": false, "2-20.0": false, "2": false, "2-": false, "-20": false, "2-20-30": false, "2,20": false, " 2-20": false, "off": false,
	} {
		if got := allowed.MatchString(value); got != want {
			t.Errorf("%q: expected allowed %t, got %t", value, want, got)
		}
	}
}
