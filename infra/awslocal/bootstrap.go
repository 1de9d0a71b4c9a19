package awslocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// outputWait limits the wait for the output of an ended process. A child process may still keep the output open.
const outputWait = 10 * time.Second

// BootstrapConfig configures a Bootstrap.
type BootstrapConfig struct {
	// Path is the executable to deploy: the bootstrap file of an OS-only runtime such as provided.al2023. Required.
	Path string
	// Env holds additional environment variables, as KEY=value. They override the variables that Lambda sets. The
	// function inherits nothing from this process's environment.
	Env []string
	// FunctionName defaults to "function".
	FunctionName string
	// MemoryMB is the memory size reported to the function. It is not enforced. Defaults to 128.
	MemoryMB int
	// Timeout applies to invocations whose context has no deadline. Defaults to 3 s.
	Timeout time.Duration
	// Logs receives the standard output and error of all processes. Several processes may write to it concurrently.
	// Defaults to io.Discard.
	Logs io.Writer
	// OnInit is called with the time between a process's start and its first request for an event. Optional.
	OnInit func(time.Duration)
}

func (c BootstrapConfig) withDefaults() BootstrapConfig {
	if c.FunctionName == "" {
		c.FunctionName = "function"
	}
	if c.MemoryMB == 0 {
		c.MemoryMB = 128
	}
	if c.Timeout == 0 {
		c.Timeout = functionTimeoutDefault
	}
	if c.Logs == nil {
		c.Logs = io.Discard
	}
	if c.OnInit == nil {
		c.OnInit = func(time.Duration) {}
	}
	return c
}

func (c BootstrapConfig) validate() error {
	info, err := os.Stat(c.Path)
	switch {
	case err != nil:
		return fmt.Errorf("BootstrapConfig.Path: expected an executable: %w", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("BootstrapConfig.Path: expected an executable, got %s (%v)", c.Path, info.Mode())
	case !functionName.MatchString(c.FunctionName):
		return fmt.Errorf("BootstrapConfig.FunctionName: expected 1 to 64 ASCII letters, digits, hyphens and underscores, got %q", c.FunctionName)
	case c.Timeout < 0 || c.Timeout > functionTimeoutMax:
		return fmt.Errorf("BootstrapConfig.Timeout: expected at most %v, got %v", functionTimeoutMax, c.Timeout)
	}
	return nil
}

// Bootstrap runs the executable of a Lambda function and serves the Runtime API to it (Lambda Developer Guide, "Using
// the Lambda runtime API for custom runtimes"). Pass the method Start to Poll, or use it in a Function. A Bootstrap
// runs real processes, so it does not work inside a testing/synctest bubble. It is safe for concurrent use.
//
// An execution environment starts its process at the first invocation. It starts a new process if the old one has
// exited, crashed or been killed at a timeout. The start-up time counts towards the timeout of the first invocation.
// Lambda instead has a separate limit of ten seconds for the start-up.
type Bootstrap struct {
	config BootstrapConfig

	mu        sync.Mutex
	closed    bool
	requests  uint64
	processes map[*process]bool // running processes
}

// NewBootstrap returns a Bootstrap that runs config.Path. The caller must close it.
func NewBootstrap(config BootstrapConfig) (*Bootstrap, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("BootstrapConfig.Path: %w", err)
	}
	config.Path = path
	return &Bootstrap{config: config, processes: make(map[*process]bool)}, nil
}

// Start returns a new execution environment, which handles one invocation at a time. The environment returns
// FunctionErrors with the type and message that Lambda reports.
func (b *Bootstrap) Start() Invoker { return &processEnvironment{bootstrap: b} }

// Close kills the processes of all environments, even during an invocation, and prevents new processes. When Close
// returns, BootstrapConfig.Logs has all output of these processes, unless a child process kept the output open for
// longer than ten seconds.
func (b *Bootstrap) Close() error {
	b.mu.Lock()
	b.closed = true
	var running []*process
	for p := range b.processes {
		running = append(running, p)
	}
	b.mu.Unlock()
	for _, p := range running {
		p.kill()
	}
	return nil
}

// processEnvironment is an execution environment. It has at most one process.
type processEnvironment struct {
	bootstrap *Bootstrap

	mu      sync.Mutex // held during an invocation
	process *process   // nil before the first invocation
}

// Invoke runs one invocation.
func (e *processEnvironment) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := time.Now()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(e.bootstrap.config.Timeout))
		defer cancel()
	}
	i := e.bootstrap.newInvocation(ctx, payload)
	if e.process != nil {
		switch e.process.offer(ctx, i) {
		case offerTaken:
			return e.await(ctx, began, i)
		case offerLate:
			return nil, e.timeOut(began, i)
		case offerExited: // the process exited after the previous invocation
		}
	}
	p, err := e.bootstrap.startProcess()
	if err != nil {
		return nil, i.failed("Runtime.InvalidEntrypoint", "Error: %v", err)
	}
	e.process = p
	switch p.offer(ctx, i) {
	case offerTaken:
		return e.await(ctx, began, i)
	case offerLate:
		return nil, e.timeOut(began, i)
	default:
		return nil, p.exitError(i)
	}
}

// await waits for the outcome of an invocation that the process has accepted.
func (e *processEnvironment) await(ctx context.Context, began time.Time, i *runtimeInvocation) ([]byte, error) {
	select {
	case <-i.done:
		return i.answer, i.err
	default:
	}
	select {
	case <-i.done:
		return i.answer, i.err
	case <-e.process.exited:
		select {
		case <-i.done: // the process answered just before it exited
			return i.answer, i.err
		default:
			return nil, e.process.exitError(i)
		}
	case <-ctx.Done():
		return nil, e.timeOut(began, i)
	}
}

// timeOut kills the process, as Lambda does.
func (e *processEnvironment) timeOut(began time.Time, i *runtimeInvocation) error {
	e.process.kill()
	return i.failed("Sandbox.Timedout", "Error: Task timed out after %.2f seconds", i.deadline.Sub(began).Seconds())
}

// newInvocation assigns a request ID to a payload.
func (b *Bootstrap) newInvocation(ctx context.Context, payload []byte) *runtimeInvocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	deadline, _ := ctx.Deadline()
	return &runtimeInvocation{
		id: fmt.Sprintf("00000000-0000-4000-8000-%012d", b.requests), number: b.requests,
		function: b.config.FunctionName, payload: payload, deadline: deadline, done: make(chan struct{}),
	}
}

// startProcess starts a process and the Runtime API for it.
func (b *Bootstrap) startProcess() (*process, error) {
	p := newProcess(b.config.OnInit)
	address, err := p.serve()
	if err != nil {
		return nil, fmt.Errorf("serving the Runtime API: %w", err)
	}
	p.command = exec.Command(b.config.Path) //nolint:gosec // the caller chooses the executable
	p.command.Dir = filepath.Dir(b.config.Path)
	p.command.Env = b.environment(address)
	p.command.Stdout, p.command.Stderr = b.config.Logs, b.config.Logs
	p.command.WaitDelay = outputWait

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		err = errors.New("the Bootstrap is closed")
	} else {
		p.begin()
		err = p.command.Start()
	}
	if err != nil {
		p.api.Close()
		return nil, err
	}
	b.processes[p] = true
	go func() {
		p.wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.processes, p)
	}()
	return p, nil
}

// environment returns the environment variables of a process (Lambda Developer Guide, "Defined runtime environment
// variables").
func (b *Bootstrap) environment(api string) []string {
	root := filepath.Dir(b.config.Path)
	return append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + api,
		"AWS_LAMBDA_FUNCTION_NAME=" + b.config.FunctionName,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(b.config.MemoryMB),
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + b.config.FunctionName,
		"AWS_LAMBDA_LOG_STREAM_NAME=local",
		"AWS_REGION=" + Region,
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=any",
		"AWS_SECRET_ACCESS_KEY=any",
		"LAMBDA_TASK_ROOT=" + root,
		"LAMBDA_RUNTIME_DIR=" + root,
		"_HANDLER=" + filepath.Base(b.config.Path),
		"PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin",
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
	}, b.config.Env...)
}
