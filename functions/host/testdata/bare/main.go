// Command bare is a Lambda function that does nothing: what the start of others is measured beside.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context) error { return nil })
}
