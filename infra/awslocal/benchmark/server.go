package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// server is an emulator that runs in its own process.
type server struct {
	name    string
	url     string
	sqs     bool // set if the server serves SQS
	dynamo  bool // set if the server serves DynamoDB
	process *exec.Cmd
	// ready is the time from the start of the process to its first answer.
	ready time.Duration
}

// startTimeout limits the time until an emulator's first answer.
const startTimeout = 2 * time.Minute

// start runs a command that serves on the given port, and waits until it answers.
func (s *server) start(port int, command ...string) error {
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	s.process = exec.CommandContext(context.Background(), command[0], command[1:]...)
	if s.ours() {
		s.process.Stderr = os.Stderr // Other emulators log every request.
	}
	began := time.Now()
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	for {
		answer, err := http.Get(s.url + "/") //nolint:noctx // startTimeout bounds it
		if err == nil {
			answer.Body.Close()
			s.ready = time.Since(began)
			return nil
		}
		if time.Since(began) > startTimeout {
			s.stop()
			return fmt.Errorf("starting %s: no answer within %v: %w", s.name, startTimeout, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// stop stops the process that start has started. A second call does nothing.
func (s *server) stop() {
	if s.process.ProcessState != nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// residentMB returns the resident memory of the process, from /proc.
func (s *server) residentMB() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) / 1024, err
		}
	}
	return 0, errors.New("no VmRSS found in /proc")
}

// freePort returns an unused loopback port.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
