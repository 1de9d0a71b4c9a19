package awslocal_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/awslocal/internal/connect"
)

// If the environment variable named by serveData is set, the test program runs no tests. Instead it serves a Cloud,
// which its parent process, the test, can kill. The other variables configure this Cloud.
const (
	serveData     = "AWSLOCAL_TEST_SERVE_DATA"      // data folder
	serveAhead    = "AWSLOCAL_TEST_SERVE_AHEAD"     // how far the Cloud's clock is ahead of the real time
	serveBytesMax = "AWSLOCAL_TEST_SERVE_BYTES_MAX" // maximum length of a file
	serveAt       = "AWSLOCAL_TEST_SERVE_AT"        // host and port
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveData); dir != "" {
		if err := serveChild(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild serves a Cloud until its standard input is closed. That happens at the latest when the parent process
// ends.
func serveChild(dir string) error {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin) // Copy returns when the parent ends, for whatever reason.
	}()
	ahead, err := time.ParseDuration(cmp.Or(os.Getenv(serveAhead), "0s"))
	if err != nil {
		return err
	}
	cloud, err := awslocal.Open(awslocal.Config{Data: dir, Now: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		return err
	}
	addr := cmp.Or(os.Getenv(serveAt), "127.0.0.1:0")
	server, err := cloud.Listen(addr)
	for errors.Is(err, syscall.EADDRINUSE) { // another test's process may have chosen the same port
		select {
		case <-over:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
		server, err = cloud.Listen(addr)
	}
	if err != nil {
		return err
	}
	if err := limitFiles(os.Getenv(serveBytesMax)); err != nil {
		return err
	}
	fmt.Println(server.URL())
	<-over
	return nil
}

// child is a Cloud in its own process.
type child struct {
	t         *testing.T
	command   *exec.Cmd
	url       string
	sqs       *sqs.Client
	dynamo    *dynamodb.Client
	scheduler *scheduler.Client
	states    *sfn.Client
}

func startChild(t *testing.T, dir string, variables ...string) child {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), append(variables, serveData+"="+dir)...)
	command.Stderr = t.Output()
	_, err = command.StdinPipe() // The pipe stays open as long as this process lives.
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c := child{t: t, command: command}
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if c.url = strings.TrimSpace(line); err != nil || !strings.HasPrefix(c.url, "http://") {
		t.Fatalf("expected the address of the child, got %q, %v", line, err)
	}
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: &c.url, Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} },
		HTTPClient: &http.Client{Transport: connect.Whole(&http.Transport{MaxIdleConnsPerHost: 10})},
	}
	c.sqs, c.dynamo = sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
	c.scheduler, c.states = scheduler.NewFromConfig(config), sfn.NewFromConfig(config)
	return c
}

// kill kills the child with SIGKILL. A second call does nothing.
func (c child) kill() {
	if c.command.ProcessState == nil {
		_ = c.command.Process.Kill() // The process may already have ended.
		_ = c.command.Wait()         // Wait reports the kill as an error.
	}
}

// queue returns the child's queue with the given name.
func (c child) queue(name string) queue {
	return queue{t: c.t, client: c.sqs, name: name, url: c.url + "/" + awslocal.Account + "/" + name}
}
