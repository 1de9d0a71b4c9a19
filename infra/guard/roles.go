package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra"
)

// Roles are the guards of all functions of a stack.
type Roles struct{ guards map[string]*Guard }

// NewRoles returns the guards of a stack's functions, by the stack's values.
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

// Attach has the clients that are made from the configuration ask the guard of the function. It panics if the template has no
// function of the name.
func (r *Roles) Attach(function string, config *aws.Config) {
	g, ok := r.guards[function]
	if !ok {
		panic(fmt.Sprintf("guard: expected one of the functions %v, got %q", slices.Sorted(maps.Keys(r.guards)), function))
	}
	g.Attach(config)
}

// Denied returns the calls that the functions' roles do not allow, nil if there is none.
func (r *Roles) Denied() error {
	var denied []error
	for _, name := range slices.Sorted(maps.Keys(r.guards)) {
		denied = append(denied, r.guards[name].Denied()...)
	}
	return errors.Join(denied...)
}

// Unused returns the permissions that no call has needed, in none of the stacks, each with its function and as the template names
// the resource, sorted: "gateway: sqs:SendMessage on ${Queue.Arn}". One for a workflow of the stack's own is needed if it is for one of them.
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
