package simulate_test

import (
	"context"
	"sync"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
)

// recorder implements the services of the machines. It records the requests, and returns the same result for the same
// idempotency key.
type recorder struct {
	mu    sync.Mutex
	calls []string
	keys  map[string]string
	codes map[string]string // by address, the code of the last mail
	// jobs are the jobs of enrich's third party, by subject. `submitting` is called during Submit.
	jobs       map[string]enrich.Job
	submitting func(enrich.Job) error
}

func (r *recorder) note(service, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, service)
	if r.keys == nil {
		r.keys = map[string]string{}
	}
	r.keys[key] = service
}

// distinct returns how many different keys a service was called with.
func (r *recorder) distinct(service string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, noted := range r.keys {
		if noted == service {
			n++
		}
	}
	return n
}

func (r *recorder) Launch(_ context.Context, request job.Request) (job.Runner, error) {
	r.note("launch", request.IdempotencyKey)
	return job.Runner{ID: "runner for " + request.IdempotencyKey}, nil
}

func (r *recorder) SendVerification(_ context.Context, v signup.Verification) (string, error) {
	r.note("mail", v.IdempotencyKey)
	r.mu.Lock()
	defer r.mu.Unlock()
	code := "code for " + v.IdempotencyKey
	if r.codes == nil {
		r.codes = map[string]string{}
	}
	r.codes[v.Email] = code
	return code, nil
}

func (r *recorder) Provision(_ context.Context, account signup.Account) (string, error) {
	r.note("provision", account.IdempotencyKey)
	return "account for " + account.IdempotencyKey, nil
}

// code returns the code of the last mail to the address.
func (r *recorder) code(address string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[address]
}
