package asl

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

const (
	attemptsUnlessSaid = 3
	intervalUnlessSaid = 1
	backOffUnlessSaid  = 2.0
	maxDelaySecondsMax = 31_622_400
)

// integrations lists the supported service integrations with their supported and required parameters.
var integrations = map[string]struct{ takes, requires []string }{
	"sqs:sendMessage": {
		takes:    []string{"DelaySeconds", "MessageAttributes", "MessageBody", "MessageDeduplicationId", "MessageGroupId", "MessageSystemAttributes", "QueueUrl"},
		requires: []string{"MessageBody", "QueueUrl"},
	},
	"lambda:invoke": {
		takes:    []string{"FunctionName", "InvocationType", "LogType", "Payload"},
		requires: []string{"FunctionName"},
	},
}

const (
	integrationPrefix = "arn:aws:states:::"
	callbackSuffix    = ".waitForTaskToken"
)

func (o *object) taskState(s *State, _ *Machine) {
	o.filters(s)
	o.next(s)
	o.results(s)
	s.Parameters = o.template("Parameters")
	s.Timeout = o.numberOrPath("TimeoutSeconds", 1)
	s.Heartbeat = o.numberOrPath("HeartbeatSeconds", 1)
	if s.Timeout.value > 0 && s.Heartbeat.value >= s.Timeout.value {
		o.find("HeartbeatSeconds", "it must be smaller than TimeoutSeconds")
	}
	s.Resource = o.resource(o.required("Resource"))
	if !o.failed("Resource") && s.Resource.Function == "" {
		o.parameters(s)
	}
}

// resource parses the resource ARN of a Task state.
func (o *object) resource(arn string) Resource {
	r := Resource{ARN: arn}
	if o.failed("Resource") {
		return r
	}
	if strings.HasPrefix(arn, "arn:aws:lambda:") && strings.Contains(arn, ":function:") {
		r.Service, r.Action, r.Function = "lambda", "invoke", arn
		return r
	}
	integration, ok := strings.CutPrefix(arn, integrationPrefix)
	if ok {
		integration, r.Callback = strings.CutSuffix(integration, callbackSuffix)
		if _, ok = integrations[integration]; ok {
			r.Service, r.Action, _ = strings.Cut(integration, ":")
			return r
		}
	}
	o.bad["Resource"] = true
	o.findings.add(o.path+"/Resource", notSupportedHere, "awslocal does not support the resource %s: it supports %ssqs:sendMessage and %slambda:invoke, both also with %s, and the ARNs of Lambda functions",
		arn, integrationPrefix, integrationPrefix, callbackSuffix)
	return r
}

// parameters validates the parameters of a service integration.
func (o *object) parameters(s *State) {
	integration := integrations[s.Resource.Service+":"+s.Resource.Action]
	path := o.path + "/Parameters"
	if s.Parameters == nil {
		if !o.failed("Parameters") {
			o.findings.add(o.path, schemaInvalid, "The resource %s requires the field Parameters", s.Resource.ARN)
		}
		return
	}
	for _, name := range integration.requires {
		if _, there := s.Parameters.Member(name); !there {
			o.findings.add(path, schemaInvalid, "The field \"%s\" is required but was missing", name)
		}
	}
	for _, name := range s.Parameters.Members() {
		if !slices.Contains(integration.takes, name) {
			o.findings.add(path+"/"+name, schemaInvalid, "The field \"%s\" is not supported here, only %s", name, strings.Join(integration.takes, ", "))
		}
	}
	for _, only := range []struct{ name, value string }{{"InvocationType", "RequestResponse"}, {"LogType", "None"}} {
		if value, there := s.Parameters.Member(only.name); there && value != only.value {
			o.findings.add(path+"/"+only.name, notSupportedHere, "awslocal supports only the %s %s", only.name, only.value)
		}
	}
}

// retriers parses Retry.
func (o *object) retriers() []Retrier {
	var retriers []Retrier
	elements := o.objects("Retry")
	for i, element := range elements {
		element.comment()
		r := Retrier{
			Errors:      element.errorNames(i == len(elements)-1),
			Interval:    float64(element.number("IntervalSeconds", 1, numberMax, intervalUnlessSaid)),
			MaxAttempts: element.number("MaxAttempts", 0, numberMax, attemptsUnlessSaid),
			BackoffRate: backOffUnlessSaid,
			MaxDelay:    float64(element.number("MaxDelaySeconds", 1, maxDelaySecondsMax, 0)),
		}
		if value, ok := element.take("BackoffRate"); ok {
			number, _ := value.(json.Number)
			if r.BackoffRate = document.Float(number); r.BackoffRate < 1 {
				element.find("BackoffRate", "expected a number of at least 1.0, got %s", document.Encode(value))
			}
		}
		if r.MaxDelay > 0 && r.MaxDelay <= r.Interval {
			element.find("MaxDelaySeconds", "it must be greater than IntervalSeconds")
		}
		switch strategy := element.text("JitterStrategy"); strategy {
		case "", "NONE":
		case "FULL":
			element.findings.add(element.path+"/JitterStrategy", notSupportedHere, "awslocal does not support the JitterStrategy FULL: write NONE")
		default:
			element.find("JitterStrategy", "expected NONE or FULL, got %s", strategy)
		}
		element.done()
		retriers = append(retriers, r)
	}
	return retriers
}

// catchers parses Catch.
func (o *object) catchers() []Catcher {
	var catchers []Catcher
	elements := o.objects("Catch")
	for i, element := range elements {
		element.comment()
		catchers = append(catchers, Catcher{
			Errors:     element.errorNames(i == len(elements)-1),
			ResultPath: element.resultPath(),
			Next:       element.required("Next"),
		})
		element.done()
	}
	return catchers
}

// errorNames parses ErrorEquals. States.ALL must be the only name in it, and is allowed only in the last retrier or
// catcher, for which `last` is true.
func (o *object) errorNames(last bool) []string {
	value, ok := o.take("ErrorEquals")
	elements, isArray := value.([]any)
	if !ok || !isArray || len(elements) == 0 {
		o.find("ErrorEquals", "expected a non-empty array of error names")
		return nil
	}
	var names []string
	for _, element := range elements {
		name, ok := element.(string)
		if !ok {
			o.find("ErrorEquals", "expected a string, got %s", document.Encode(element))
			continue
		}
		names = append(names, name)
	}
	if slices.Contains(names, ErrorAll) && (len(names) > 1 || !last) {
		o.find("ErrorEquals", "%s must be alone and in the last element", ErrorAll)
	}
	return names
}
