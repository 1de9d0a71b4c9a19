package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra"
)

// Roles has the guards of all functions of a stack.
type Roles struct{ guards map[string]*Guard }

// NewRoles returns the guards of the stack's functions.
func NewRoles(stack infra.Stack) (*Roles, error) {
	functions, err := infra.Functions()
	if err != nil {
		return nil, err
	}
	roles := &Roles{guards: map[string]*Guard{}}
	for name := range functions {
		if roles.guards[name], err = New(stack, name); err != nil {
			return nil, err
		}
	}
	return roles, nil
}

// Attach makes clients created from the configuration check each call with the function's guard. It panics if the
// template has no such function.
func (r *Roles) Attach(function string, config *aws.Config) {
	g, ok := r.guards[function]
	if !ok {
		panic(fmt.Sprintf("guard: expected one of the functions %v, got %q", slices.Sorted(maps.Keys(r.guards)), function))
	}
	g.Attach(config)
}

// Denied returns the denied calls of all functions, or nil if no call was denied.
func (r *Roles) Denied() error {
	var denied []error
	for _, name := range slices.Sorted(maps.Keys(r.guards)) {
		denied = append(denied, r.guards[name].Denied()...)
	}
	return errors.Join(denied...)
}

// Unused returns the permissions that no call in any of the stacks has needed, sorted, with their function and the
// template's name of the resource: "gateway: sqs:SendMessage on ${Queue.Arn}". A permission for a stack's own workflows
// counts as used if a call for one of them used it.
func Unused(stacks ...*Roles) []string {
	unused := map[string]bool{}
	for _, roles := range stacks {
		for name, g := range roles.guards {
			lacking := g.Unused()
			for _, statement := range g.function.Statements {
				for i, reference := range statement.References {
					for _, action := range statement.Actions {
						text := name + ": " + action + " on " + reference
						before, seen := unused[text]
						unused[text] = slices.Contains(lacking, infra.Permission{Action: action, Resource: statement.Resources[i]}) && (before || !seen)
					}
				}
			}
		}
	}
	maps.DeleteFunc(unused, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(unused))
}
