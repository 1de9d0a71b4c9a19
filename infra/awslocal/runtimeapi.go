package awslocal

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// responseBytesMax is the maximum size of a synchronous invocation's answer (Lambda Developer Guide, "Lambda
// quotas").
const responseBytesMax = 6<<20 + 100

// runtimeInvocation is one event for a process.
type runtimeInvocation struct {
	id       string
	number   uint64
	function string
	payload  []byte
	deadline time.Time

	done   chan struct{} // closed once the fields below are set
	answer []byte
	err    error
}

// failed returns an error of the invocation in Lambda's form.
func (i *runtimeInvocation) failed(typ, format string, args ...any) error {
	return &FunctionError{Type: typ, Message: "RequestId: " + i.id + " " + fmt.Sprintf(format, args...)}
}

// process is one run of the executable, together with its Runtime API.
type process struct {
	command *exec.Cmd
	api     *http.Server
	onInit  func(time.Duration)
	init    sync.Once
	next    chan *runtimeInvocation // passes an invocation from offer to serveNext
	exited  chan struct{}           // closed once `exit` is set

	mu        sync.Mutex
	began     time.Time
	current   *runtimeInvocation // accepted but not answered
	initError error
	exit      error
}

func newProcess(onInit func(time.Duration)) *process {
	return &process{onInit: onInit, next: make(chan *runtimeInvocation), exited: make(chan struct{})}
}

// serve starts serving the Runtime API and returns its host and port.
func (p *process) serve() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", p.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", p.serveResponse)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", p.serveError)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", p.serveInitError)
	p.api = &http.Server{Handler: onlyLoopback(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.api.Serve(listener) }() // returns when wait closes the server
	return listener.Addr().String(), nil
}

// onlyLoopback rejects requests whose Host is neither localhost nor a loopback address. Otherwise a web page could
// reach the Runtime API by DNS rebinding: see CheckHost.
func onlyLoopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := CheckHost(r.Host, nil); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// begin records the start time of the process.
func (p *process) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Now()
}

// age returns the time since the process started.
func (p *process) age() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.began)
}

// wait waits for the process to end.
func (p *process) wait() {
	exit := p.command.Wait()
	p.mu.Lock()
	p.exit = exit
	p.mu.Unlock()
	close(p.exited)
	_ = p.api.Close()
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	_ = p.command.Process.Kill() // Kill fails if the process has already ended.
	<-p.exited
}

// exitError returns the error of an invocation that the process did not answer before it ended.
func (p *process) exitError(i *runtimeInvocation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.initError != nil:
		return p.initError
	case p.exit == nil:
		return i.failed("Runtime.ExitError", "Error: Runtime exited without providing a reason")
	}
	return i.failed("Runtime.ExitError", "Error: Runtime exited with error: %v", p.exit)
}

// offer is the result of offering an invocation to a process.
type offer int

const (
	offerTaken  offer = iota
	offerExited       // the process has ended
	offerLate         // the deadline has passed
)

// offer waits until the process requests an event, and passes it the invocation. An ended process gets none, even if
// serveNext has not yet noticed that its request is gone.
func (p *process) offer(ctx context.Context, i *runtimeInvocation) offer {
	select {
	case <-p.exited:
		return offerExited
	default:
	}
	select {
	case p.next <- i:
		return offerTaken
	case <-p.exited:
		return offerExited
	case <-ctx.Done():
		return offerLate
	}
}

// serveNext answers the process's request for an event.
func (p *process) serveNext(w http.ResponseWriter, r *http.Request) {
	p.init.Do(func() { p.onInit(p.age()) })
	var i *runtimeInvocation
	p.mu.Lock()
	busy := p.current != nil
	p.mu.Unlock()
	if busy {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "the previous invocation has not been answered")
		return
	}
	select {
	case i = <-p.next:
	case <-r.Context().Done():
		return
	}
	p.mu.Lock()
	p.current = i
	p.mu.Unlock()
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Lambda-Runtime-Aws-Request-Id", i.id)
	header.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
	header.Set("Lambda-Runtime-Invoked-Function-Arn", functionARN(i.function))
	header.Set("Lambda-Runtime-Trace-Id", fmt.Sprintf("Root=1-00000000-%024x;Parent=%016x;Sampled=0", i.number, i.number))
	_, _ = w.Write(i.payload)
}

// functionARN returns the ARN of a function.
func functionARN(name string) string {
	return "arn:aws:lambda:" + Region + ":" + Account + ":function:" + name
}

// serveResponse accepts the answer to an invocation. An error that occurs while the function streams its answer
// arrives in a trailer.
func (p *process) serveResponse(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, responseBytesMax))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		failure := &FunctionError{
			Type:    "Function.ResponseSizeTooLarge",
			Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", responseBytesMax),
		}
		p.settle(w, r.PathValue("id"), http.StatusRequestEntityTooLarge, nil, failure)
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidRequest", "reading the response: "+err.Error())
		return
	}
	if typ := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); typ != "" {
		// If the body is not valid base64, DecodeString returns the part before the invalid byte.
		text, _ := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body"))
		p.settle(w, r.PathValue("id"), http.StatusAccepted, nil, parseError(text, typ))
		return
	}
	p.settle(w, r.PathValue("id"), http.StatusAccepted, body, nil)
}

// serveError accepts the error of an invocation.
func (p *process) serveError(w http.ResponseWriter, r *http.Request) {
	p.settle(w, r.PathValue("id"), http.StatusAccepted, nil, readError(r))
}

// serveInitError accepts the error of a process that failed to start.
func (p *process) serveInitError(w http.ResponseWriter, r *http.Request) {
	failure := readError(r)
	p.mu.Lock()
	p.initError = failure
	p.mu.Unlock()
	answerStatus(w, http.StatusAccepted, map[string]string{"status": "OK"})
}

// settle sets the outcome of the current invocation. It reports whether id identifies that invocation.
func (p *process) settle(w http.ResponseWriter, id string, status int, answer []byte, err error) bool {
	p.mu.Lock()
	i := p.current
	known := i != nil && i.id == id
	if known {
		p.current = nil
	}
	p.mu.Unlock()
	if !known {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "expected the ID of the current invocation, got "+id)
		return false
	}
	answerStatus(w, status, map[string]string{"status": "OK"})
	i.answer, i.err = answer, err
	close(i.done)
	return true
}

// readError reads an error in the form of the Runtime API.
func readError(r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, responseBytesMax))
	if err != nil {
		return &FunctionError{Type: "Runtime.Unknown", Message: "reading the error: " + err.Error()}
	}
	return parseError(body, r.Header.Get("Lambda-Runtime-Function-Error-Type"))
}

// parseError parses the JSON of an error. Any other text becomes the message.
func parseError(text []byte, typ string) error {
	var failure struct {
		ErrorType    string `json:"errorType"`
		ErrorMessage string `json:"errorMessage"`
	}
	if json.Unmarshal(text, &failure) != nil {
		failure.ErrorMessage = string(text)
	}
	if failure.ErrorType == "" {
		failure.ErrorType = typ
	}
	return &FunctionError{Type: failure.ErrorType, Message: failure.ErrorMessage}
}

func refuse(w http.ResponseWriter, status int, typ, message string) {
	answerStatus(w, status, map[string]string{"errorType": typ, "errorMessage": message})
}

func answerStatus(w http.ResponseWriter, status int, body map[string]string) {
	text, err := json.Marshal(body)
	if err != nil {
		panic("awslocal: cannot encode strings as JSON: " + err.Error())
	}
	write(w, status, "application/json", text)
}
