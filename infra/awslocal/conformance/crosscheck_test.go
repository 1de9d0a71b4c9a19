package conformance_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

var crosscheck = flag.Bool("crosscheck", false, "run TestCrosscheck against other emulators, in real time, for some minutes")

type emulator struct {
	name     string // as in the list of differences
	services []string
	// command returns the command that starts the emulator on a loopback port. It runs in the folder testdata/npm. Its
	// first word is a program on the PATH. The field is nil for awslocal.
	command func(port string) []string
}

var emulators = []emulator{
	{name: "awslocal", services: []string{"SQS", "DynamoDB", "Scheduler", "StepFunctions"}},
	{name: "dynalite", services: []string{"DynamoDB"}, command: func(port string) []string {
		return []string{"node", "node_modules/dynalite/cli.js", "--host", "127.0.0.1", "--port", port,
			"--createTableMs", "10", "--deleteTableMs", "10", "--updateTableMs", "10"}
	}},
	{name: "fauxqs", services: []string{"SQS"}, command: func(port string) []string {
		return []string{"node", "fauxqs.mjs", port}
	}},
	// By default, moto's executions never end. With the option that lets them end, StartExecution returns an internal
	// error. The crosscheck therefore omits moto's Step Functions.
	{name: "moto", services: []string{"SQS", "DynamoDB", "Scheduler"}, command: func(port string) []string {
		return []string{"moto_server", "-H", "127.0.0.1", "-p", port}
	}},
}

// TestCrosscheck runs the tests of the behaviours in real time against other emulators. It also runs them against
// awslocal. If awslocal passes, the machine was fast enough, so another emulator's failures are not due to slow tests.
// Every difference must be listed in differences, and every listed difference must occur.
func TestCrosscheck(t *testing.T) {
	t.Parallel()
	if !*crosscheck {
		t.Skip("compares with other emulators, which only make crosscheck installs")
	}
	for _, e := range emulators {
		t.Run(e.name, func(t *testing.T) {
			endpoint := e.start(t)
			for _, service := range e.services {
				e.check(t, service, endpoint)
			}
		})
	}
}

// start starts the emulator for the duration of the test and returns its URL. It skips the test if the emulator is
// not installed.
func (e emulator) start(t *testing.T) (endpoint string) {
	t.Helper()
	if e.command == nil {
		server, err := awslocal.New(awslocal.Config{}).Listen("127.0.0.1:0")
		must(t, "Listen", err)
		t.Cleanup(func() { _ = server.Close() })
		return server.URL()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "looking for a free port", err)
	address := listener.Addr().String()
	must(t, "freeing the port", listener.Close())
	_, port, err := net.SplitHostPort(address)
	must(t, "reading the port", err)

	words := e.command(port)
	if _, err := exec.LookPath(words[0]); err != nil {
		t.Skipf("%s is not on the PATH", words[0])
	}
	command := exec.Command(words[0], words[1:]...)
	command.Dir = "testdata/npm"
	command.WaitDelay = time.Second
	must(t, "starting "+e.name, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %s; has npm ci been run in %s? %v", e.name, address, command.Dir, err)
		}
	}
}

// failurePattern matches each failed behaviour and its output.
var failurePattern = regexp.MustCompile(`(?m)^    --- FAIL: Test\w+/(\S+) .*\n((?:        .*\n|\n)*)`)

// check compares the failed behaviours of a service with the known differences. It runs the tests in another process,
// where a failure does not fail this test.
func (e emulator) check(t *testing.T, service, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tests := exec.CommandContext(ctx, os.Args[0], "-test.run=^Test"+service+"$", "-test.parallel=4",
		fmt.Sprintf("-%s-endpoint=%s", strings.ToLower(service), endpoint), "-patience="+patience.String())
	output, err := tests.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%s of %s: %v\n%s", service, e.name, err, output)
	}
	failed := map[string]string{}
	for _, match := range failurePattern.FindAllStringSubmatch(string(output), -1) {
		failed[match[1]] = match[2]
	}
	if err != nil && len(failed) == 0 {
		t.Fatalf("%s of %s: %v\n%s", service, e.name, err, output)
	}
	for _, b := range behavioursOf(service) {
		reason, fails := failed[b.name]
		i := slices.IndexFunc(differences, func(d difference) bool {
			return d.emulator == e.name && d.service == service && d.behaviour == b.name
		})
		listed := i >= 0
		switch {
		case fails && !listed:
			t.Errorf("%s differs in %s/%s, which is missing in differences:\n%s", e.name, service, b.name, reason)
		case !fails && listed && !differences[i].byChance:
			t.Errorf("%s does not differ in %s/%s: remove it from differences", e.name, service, b.name)
		case fails:
			t.Logf("%s differs in %s/%s, as listed:\n%s", e.name, service, b.name, reason)
		}
	}
	t.Logf("%s: %d of %d behaviours of %s differ", e.name, len(failed), len(behavioursOf(service)), service)
}

func behavioursOf(name string) []behaviour {
	return services[slices.IndexFunc(services, func(s service) bool { return s.name == name })].behaviours
}
