package cdk

import (
	"cmp"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// PollerInvocations is the maximum number of concurrent invocations by one event poller (Lambda Developer Guide,
// "Provisioned mode").
const PollerInvocations = 10

// Pollers are the event pollers that Lambda keeps ready for a mapping, in its provisioned mode.
type Pollers struct {
	// Minimum is the number of pollers that always run. PollersMin to PollersMinimumMax, and at most Maximum; defaults to
	// PollersMin.
	Minimum int
	// Maximum is the number of pollers that the mapping scales up to. PollersMin to PollersMaximumMax. Required with
	// Minimum.
	Maximum int
}

func (p Pollers) on() bool { return p != Pollers{} }

// provision sets the pollers of a mapping. It sets them on the CloudFormation resource, because CDK's
// EventSourceMapping limits Maximum to 2,000, Lambda's former limit.
func (p Pollers) provision(mapping awslambda.CfnEventSourceMapping) {
	mapping.SetProvisionedPollerConfig(&awslambda.CfnEventSourceMapping_ProvisionedPollerConfigProperty{
		MinimumPollers: jsii.Number(p.Minimum), MaximumPollers: jsii.Number(p.Maximum),
	})
	// To remove the maximum concurrency of an existing mapping, pass an empty ScalingConfig (CloudFormation Template
	// Reference, "AWS::Lambda::EventSourceMapping ScalingConfig"). CDK drops an empty object, but keeps NoValue.
	mapping.AddPropertyOverride(jsii.String("ScalingConfig.MaximumConcurrency"), awscdk.Aws_NO_VALUE())
}

// scaling is the scaling of the consumer for one lane: a maximum concurrency, or pollers.
type scaling struct {
	// concurrencyName and pollersName name the props in errors.
	concurrencyName, pollersName string
	concurrency                  int
	pollers                      Pollers
}

func (s scaling) withDefaults() scaling {
	if s.pollers.on() {
		s.pollers.Minimum = cmp.Or(s.pollers.Minimum, PollersMin)
	} else {
		s.concurrency = cmp.Or(s.concurrency, consumerConcurrencyDefault)
	}
	return s
}

// limits returns the props with their limits. It returns an error if both props are set.
func (s scaling) limits() ([]limited, error) {
	if !s.pollers.on() {
		return []limited{{s.concurrencyName, s.concurrency, ConsumerConcurrencyMin, ConsumerConcurrencyMax}}, nil
	}
	if s.concurrency != 0 {
		return nil, fmt.Errorf("cdk: expected Props.%s or Props.%s, got both: remove one, because Lambda accepts only one", s.concurrencyName, s.pollersName)
	}
	return []limited{
		{s.pollersName + ".Maximum", s.pollers.Maximum, PollersMin, PollersMaximumMax},
		{s.pollersName + ".Minimum", s.pollers.Minimum, PollersMin, min(s.pollers.Maximum, PollersMinimumMax)},
	}, nil
}

// batches returns the maximum number of batches processed at once.
func (s scaling) batches() int { return cmp.Or(s.concurrency, PollerInvocations*s.pollers.Maximum) }

func (p Props) scaling() scaling {
	return scaling{"ConsumerConcurrency", "ConsumerPollers", p.ConsumerConcurrency, p.ConsumerPollers}
}

func (l Lane) scaling() scaling {
	prop := fmt.Sprintf("Lanes[%s].", l.Name)
	return scaling{prop + "Concurrency", prop + "Pollers", l.Concurrency, l.Pollers}
}

// limited is a number in Props with its limits.
type limited struct {
	name               string
	value, least, most int
}

// validateNumbers checks the limits of the numbers, including the numbers of the lanes.
func (p Props) validateNumbers() error {
	all := []limited{
		{"ConsumerBatch", p.ConsumerBatch, 1, ConsumerBatchMax},
		{"WebhooksPerSecond", p.WebhooksPerSecond, 1, WebhooksPerSecondMax},
		{"EventsPerFiveMinutes", p.EventsPerFiveMinutes, 1, EventsPerFiveMinutesMax},
		{"MemoryMiB", p.MemoryMiB, MemoryMiBMin, MemoryMiBMax},
	}
	scalings := []scaling{p.scaling()}
	for _, lane := range p.Lanes {
		scalings = append(scalings, lane.scaling())
	}
	for _, scaling := range scalings {
		limits, err := scaling.limits()
		if err != nil {
			return err
		}
		all = append(all, limits...)
	}
	for _, prop := range all {
		if prop.value < prop.least || prop.value > prop.most {
			return fmt.Errorf("cdk: expected Props.%s from %d to %d, got %d", prop.name, prop.least, prop.most, prop.value)
		}
	}
	return nil
}
