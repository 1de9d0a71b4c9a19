// Package hosttest provides environments for tests of Lambda functions.
package hosttest

import "strings"

// Environment returns a lookup of variables given as NAME=value, for host.Start and host.NewEnv.
func Environment(variables ...string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, variable := range variables {
			if value, ok := strings.CutPrefix(variable, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}
