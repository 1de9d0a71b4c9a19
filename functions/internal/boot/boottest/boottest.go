// Package boottest provides environments for tests of functions.
package boottest

import "strings"

// Environment returns a lookup of variables given as NAME=value, for boot.Start and boot.NewEnv.
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
