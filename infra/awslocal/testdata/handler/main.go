// Command handler is a Lambda function for the tests of Bootstrap. Its payload selects its behaviour.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type order struct{ Do, Name string }

type answer struct {
	Value   string
	PID     int
	Request string
	ARN     string
	Trace   string
}

func handle(ctx context.Context, o order) (any, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	a := answer{PID: os.Getpid(), Request: lc.AwsRequestID, ARN: lc.InvokedFunctionArn, Trace: os.Getenv("_X_AMZN_TRACE_ID")}
	switch o.Do {
	case "echo":
		a.Value = o.Name
	case "getenv":
		a.Value = os.Getenv(o.Name)
	case "environ":
		a.Value = strings.Join(os.Environ(), "\n")
	case "deadline":
		deadline, _ := ctx.Deadline()
		a.Value = deadline.UTC().Format(time.RFC3339Nano)
	case "error":
		return nil, errors.New("no such order: " + o.Name)
	case "panic":
		panic("out of order")
	case "exit":
		os.Exit(3)
	case "leave":
		os.Exit(0)
	case "sleep":
		fmt.Println("sleeping")
		time.Sleep(time.Hour)
	case "big":
		return strings.Repeat("x", 6<<20+200), nil
	case "truncate": // fails in the middle of its answer
		return &broken{strings.NewReader("half an ans")}, nil
	}
	return a, nil
}

type broken struct{ *strings.Reader }

func (b *broken) Read(p []byte) (int, error) {
	if b.Len() == 0 {
		return 0, errors.New("the other half is missing")
	}
	return b.Reader.Read(p)
}

func main() {
	fmt.Println("starting")
	switch os.Getenv("INIT") {
	case "exit":
		os.Exit(7)
	case "error":
		_, _ = http.Post("http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+"/2018-06-01/runtime/init/error", "application/json",
			bytes.NewReader([]byte(`{"errorType":"Settings.Missing","errorMessage":"no table"}`)))
		os.Exit(1)
	case "hang":
		time.Sleep(time.Hour)
	}
	lambda.Start(handle)
}
