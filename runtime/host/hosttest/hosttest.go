// Package hosttest provides environments for tests of Lambda functions.
package hosttest

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

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

// AWS returns a loader of AWS settings for host.Start. The Region is eu-central-1 and the credentials are arbitrary.
// The endpoint may be empty if the test makes no call.
func AWS(endpoint string) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{Region: "eu-central-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}, nil
	}
}
