package infra

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Statement allows actions on resources, under conditions. No statement denies.
type Statement struct {
	// Actions are full names, such as sqs:SendMessage.
	Actions []string `json:"actions"`
	// Resources are ARN patterns: * matches any text, ? any character.
	Resources []string `json:"resources"`
	// References are the resources as in the template, such as ${Queue.Arn}, in the order of Resources. Resolve sets
	// them.
	References []string `json:"-"`
	// Conditions maps each operator and condition key to the accepted values. All conditions must hold.
	Conditions map[string]map[string][]string `json:"conditions"`
}

// Call is an AWS call as IAM sees it.
type Call struct {
	// Action is the action, such as sqs:SendMessage. ActionOf returns the action of an operation.
	Action string
	// Resource is the ARN of the resource. It is empty if the call names no resource, as when it answers a task by its
	// token. An empty Resource matches every resource of a statement.
	Resource string
	// Context has the values of condition keys, such as dynamodb:LeadingKeys.
	Context map[string][]string
}

// ErrDenied is returned by Check when no statement allows a call.
var ErrDenied = errors.New("denied")

// Permission is an action on a resource, as in a statement.
type Permission struct{ Action, Resource string }

// Permissions returns all permissions of the function's role.
func (f Function) Permissions() []Permission {
	var permissions []Permission
	for _, statement := range f.Statements {
		for _, action := range statement.Actions {
			for _, resource := range statement.Resources {
				permissions = append(permissions, Permission{action, resource})
			}
		}
	}
	return permissions
}

// Check returns the permissions of the function's role that allow the call. A call without a resource may have several.
// It returns ErrDenied if there is no such permission. Call it only on a function that Resolve has returned.
func (f Function) Check(call Call) ([]Permission, error) {
	var permissions []Permission
	for _, statement := range f.Statements {
		if statement.holds(call.Context) {
			permissions = append(permissions, statement.matching(call)...)
		}
	}
	if len(permissions) == 0 {
		return nil, fmt.Errorf("%w: the role of the function %s in infra/template.yaml does not allow %s on %q with %v: extend infra/cdk/roles.go or remove the call",
			ErrDenied, f.Name, call.Action, call.Resource, call.Context)
	}
	return permissions, nil
}

// matching returns the permissions of the statement that match the call, ignoring conditions.
func (s Statement) matching(call Call) []Permission {
	var permissions []Permission
	for _, action := range s.Actions {
		if !like(strings.ToLower(action), strings.ToLower(call.Action)) { // IAM ignores the case of actions.
			continue
		}
		for _, resource := range s.Resources {
			if call.Resource == "" || like(resource, call.Resource) {
				permissions = append(permissions, Permission{action, resource})
			}
		}
	}
	return permissions
}

// holds reports whether all conditions of the statement hold.
func (s Statement) holds(context map[string][]string) bool {
	for operator, keys := range s.Conditions {
		for key, expected := range keys {
			if !holds(operator, expected, context[key]) {
				return false
			}
		}
	}
	return true
}

// holds reports whether a condition holds. A condition with an operator that the template does not use never holds. A
// new operator therefore shows up as a denied call.
func holds(operator string, expected, got []string) bool {
	matches := func(value string) bool { return slices.Contains(expected, value) }
	switch strings.TrimPrefix(operator, "ForAllValues:") {
	case "StringEquals":
	case "StringLike":
		matches = func(value string) bool {
			return slices.ContainsFunc(expected, func(pattern string) bool { return like(pattern, value) })
		}
	default:
		return false
	}
	if strings.HasPrefix(operator, "ForAllValues:") { // ForAllValues also holds if there are no values (IAM User Guide, "Set operators").
		return !slices.ContainsFunc(got, func(value string) bool { return !matches(value) })
	}
	return len(got) == 1 && matches(got[0])
}

// like reports whether the text matches the pattern: * matches any text, ? any character.
func like(pattern, text string) bool {
	for pattern != "" {
		switch {
		case pattern[0] == '*':
			for i := range len(text) + 1 {
				if like(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		case text == "" || pattern[0] != '?' && pattern[0] != text[0]:
			return false
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}

// batches maps each batch operation to the action that the caller needs for it (SQS Developer Guide, "Amazon SQS API
// permissions").
var batches = map[string]string{
	"sqs:SendMessageBatch": "sqs:SendMessage", "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
	"sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}

// services maps the SDK's service names to the prefixes of actions.
var services = map[string]string{"SQS": "sqs", "DynamoDB": "dynamodb", "SFN": "states", "Scheduler": "scheduler", "EventBridge": "events"}

// itemActions maps each kind of transaction item to the action that the caller needs for it (Amazon DynamoDB Developer
// Guide, "Using IAM with DynamoDB transactions").
var itemActions = map[string]string{
	"ConditionCheck": "dynamodb:ConditionCheckItem", "Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem", "Delete": "dynamodb:DeleteItem",
	"Get": "dynamodb:GetItem",
}

// ActionOfItem returns the action that an item of a DynamoDB transaction needs, such as dynamodb:PutItem for Put.
func ActionOfItem(kind string) (string, error) {
	action, ok := itemActions[kind]
	if !ok {
		return "", fmt.Errorf("expected an item of a transaction to be one of %v, got %q", slices.Sorted(maps.Keys(itemActions)), kind)
	}
	return action, nil
}

// ActionOf returns the action that an SDK operation needs, such as sqs:SendMessage for SQS and SendMessageBatch. A
// transaction has no action of its own; use ActionOfItem for its items.
func ActionOf(service, operation string) (string, error) {
	prefix, ok := services[service]
	if !ok {
		return "", fmt.Errorf("expected one of the services %v, got %q", slices.Sorted(maps.Keys(services)), service)
	}
	action := prefix + ":" + operation
	if action == "dynamodb:TransactWriteItems" || action == "dynamodb:TransactGetItems" {
		return "", fmt.Errorf("expected the items of a transaction, which IAM authorizes one by one, got %s without items", action)
	}
	if single, ok := batches[action]; ok {
		return single, nil
	}
	return action, nil
}
