// Command bare is a Lambda function that does nothing. Tests compare the start of other functions with it.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(context.Context) error { return nil })
}
