// Package limits keeps the calls of services within a rate and a concurrency, across all processes.
//
// Each key of a limit has one item in a [Store] with its state. A process leases calls from the item in blocks, so that
// most calls of a busy process need no request. Each running call holds a place: a lease that is renewed while the call
// runs. The places of a dead process are free again after 30 seconds.
//
// The algorithm is a pure function, State.step. Its comment states the guarantees, which depend on the clocks of the
// processes.
package limits

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Store keeps the states.
type Store interface {
	// SwapLimit stores `next` for a key of a limit, on condition that the Write of the stored state is `previous`, or, if
	// `previous` is empty, that nothing is stored. It returns the state that is stored after the call. After an error,
	// `next` may be stored, not stored, or stored later.
	SwapLimit(ctx context.Context, limit, key, previous string, next State) (stored State, err error)
}

const (
	// requestMax is how long a request may take, including its retries after conflicts.
	requestMax = 3 * time.Second
	// triesMax is how often a request is tried if other processes are faster. A second try follows at once, because the
	// answer to the first one has the stored state. Before each further pair of tries, the process waits for a random
	// time: after n tries, at most 2ⁿ times conflictWait.
	triesMax     = 8
	conflictWait = 10 * time.Millisecond
	// keysMax is how many keys a process may have before it forgets those that no call uses.
	keysMax = 1000
)

// WaitError is returned for a call that must wait.
type WaitError struct {
	Limit, Key string
	// Until is when the call should ask again. It is zero if the store failed, or if other processes were faster each time.
	Until time.Time
	// Err is the error of the store, or nil.
	Err error
}

// Error names the limit.
func (e *WaitError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the limit %q cannot be checked for the key %q, so the call waits: %v", e.Limit, e.Key, e.Err)
	}
	return fmt.Sprintf("the limit %q is reached for the key %q, so the call waits", e.Limit, e.Key)
}

// Unwrap returns the error of the store.
func (e *WaitError) Unwrap() error { return e.Err }

var (
	errConflicts = errors.New("other processes were faster each time")
	errLost      = errors.New("the lease could not be renewed in time, and the call was cancelled")
)

// Limiter holds one process's part of all limits. It is safe for concurrent use.
type Limiter struct {
	store Store
	now   func() time.Time
	owner string

	mu     sync.Mutex
	keys   map[keyID]*key
	writes int
}

type keyID struct{ limit, key string }

// New returns the limiter of a process. A process should have only one, because the limiter caches idle places. now is
// the clock.
func New(store Store, now func() time.Time) *Limiter {
	return &Limiter{store: store, now: now, owner: cryptorand.Text()[:13], keys: map[keyID]*key{}}
}

// key is the process's part of one key of a limit.
type key struct {
	limiter *Limiter
	id      keyID
	limit   statechart.Limit
	// users counts the calls that wait or run. The mutex of the limiter guards it.
	users int

	// lock guards the fields below, also during requests. A send to the channel takes the lock. It is no mutex, because a
	// wait for a mutex does not end with a context.
	lock    chan struct{}
	share   share
	seen    State         // the last known state
	latency time.Duration // the duration of the last request
	// cancels holds the running calls.
	cancels map[*Permit]context.CancelCauseFunc
	// stopKeeping ends the renewals. It is nil if no call runs.
	stopKeeping context.CancelFunc
}

// Permit allows one call.
type Permit struct {
	key        *key
	startUntil time.Time
	losses     int
	began      time.Time // zero if the call has not begun
	isReleased bool
}

// Acquire reserves one call. It does not wait for a free call. It returns a *WaitError if the call must wait or the
// store fails. The caller must call Start or Release.
func (l *Limiter) Acquire(ctx context.Context, limit statechart.Limit, keyOfLimit string) (*Permit, error) {
	k := l.use(limit, keyOfLimit)
	permit, err := k.acquire(ctx)
	if err != nil {
		l.unuse(k)
		return nil, err
	}
	return permit, nil
}

// use returns the key and counts one more user of it.
func (l *Limiter) use(limit statechart.Limit, name string) *key {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := keyID{limit.Name, name}
	k := l.keys[id]
	if k == nil {
		for other, idle := range l.keys {
			if len(l.keys) >= keysMax && idle.users == 0 {
				delete(l.keys, other)
			}
		}
		k = &key{limiter: l, id: id, limit: limit, lock: make(chan struct{}, 1), cancels: map[*Permit]context.CancelCauseFunc{}}
		l.keys[id] = k
	}
	k.users++
	return k
}

func (l *Limiter) unuse(k *key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.users--
}

// waiting counts the users that hold no place yet.
func (k *key) waiting() int {
	k.limiter.mu.Lock()
	defer k.limiter.mu.Unlock()
	return max(k.users-k.share.running, 1)
}

func (k *key) wait(until time.Time, err error) error {
	return &WaitError{Limit: k.id.limit, Key: k.id.key, Until: until, Err: err}
}

func (k *key) acquire(ctx context.Context) (*Permit, error) {
	select {
	case k.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, k.wait(time.Time{}, ctx.Err())
	}
	defer k.unlock()
	k.loseIfDue()
	if !k.share.take(k.limit, k.limiter.time()) {
		returnAt, err := k.request(ctx, k.waiting())
		if err != nil && !errors.Is(err, errConflicts) {
			return nil, k.wait(time.Time{}, err)
		}
		if !k.share.take(k.limit, k.limiter.time()) {
			return nil, k.wait(returnAt, nil)
		}
	}
	if k.limit.Concurrency > 0 && k.stopKeeping == nil {
		keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
		k.stopKeeping = stop
		go k.keep(keeping)
	}
	return &Permit{key: k, startUntil: k.share.startUntil, losses: k.share.losses}, nil
}

func (k *key) unlock() { <-k.lock }

// request leases calls for `waiting` calls, or only renews the lease if `waiting` is 0. returnAt is the time at which a
// denied call should ask again. The caller holds the lock.
func (k *key) request(ctx context.Context, waiting int) (returnAt time.Time, err error) {
	l := k.limiter
	limited, cancel := context.WithTimeoutCause(ctx, requestMax, fmt.Errorf("no answer within %v", requestMax))
	defer cancel()
	for tries := range triesMax {
		if tries > 0 && tries%2 == 0 && !pause(limited, rand.N(conflictWait<<tries)) {
			break
		}
		began := l.time()
		next, granted := k.seen.step(k.limit, k.share.request(k.limit, l.owner, began, waiting, k.latency))
		next.Write = l.nextWrite()
		k.share.sending(granted)
		stored, err := k.swap(limited, next)
		k.latency = l.time().Sub(began)
		if err != nil {
			return time.Time{}, err
		}
		k.seen = stored
		if stored.Write == next.Write {
			k.share.granted(k.limit, granted)
			return granted.returnAt, nil
		}
	}
	return time.Time{}, errConflicts
}

// time returns the current time without its monotonic reading, which stops while a process is frozen.
func (l *Limiter) time() time.Time { return l.now().Round(0).UTC() }

func (l *Limiter) nextWrite() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	return fmt.Sprintf("%s-%d", l.owner, l.writes)
}

// swap returns when the context ends, even if the store does not return.
func (k *key) swap(ctx context.Context, next State) (stored State, err error) {
	type answer struct {
		state State
		err   error
	}
	answers, previous := make(chan answer, 1), k.seen.Write
	go func() {
		state, err := k.limiter.store.SwapLimit(ctx, k.id.limit, k.id.key, previous, next)
		answers <- answer{state, err}
	}()
	select {
	case a := <-answers:
		return a.state, a.err
	case <-ctx.Done():
		return State{}, context.Cause(ctx)
	}
}

// keep renews the lease of the running calls until none runs.
func (k *key) keep(ctx context.Context) {
	for wait := renewAfter; pause(ctx, wait); {
		k.lock <- struct{}{}
		k.loseIfDue()
		if ctx.Err() != nil {
			k.unlock()
			return
		}
		wait = renewAfter
		if _, err := k.request(ctx, 0); err != nil {
			k.loseIfDue()
			wait = min(retryAfter, k.share.placesUntil.Sub(k.limiter.time())-loseBefore)
		}
		k.unlock()
	}
}

// loseIfDue cancels the running calls if their lease is about to end. The caller holds the lock.
func (k *key) loseIfDue() {
	if !k.share.isLost(k.limit, k.limiter.time()) {
		return
	}
	for _, cancel := range k.cancels {
		cancel(k.wait(time.Time{}, errLost))
	}
	clear(k.cancels)
	k.share.lose()
	k.stop()
}

func (k *key) stop() {
	if k.stopKeeping != nil {
		k.stopKeeping()
		k.stopKeeping = nil
	}
}

// Start begins the call. It returns the context of the call. This context is cancelled with a *WaitError before another
// process may take the place. Otherwise it ends with ctx, which must end. The caller must call `done` when the call has
// returned. If too much time has passed since Acquire, Start acquires the call again. It returns a *WaitError if the call
// must wait.
func (p *Permit) Start(ctx context.Context) (calling context.Context, done func(), err error) {
	k := p.key
	k.lock <- struct{}{}
	k.loseIfDue()
	isLate := k.limit.Rate > 0 && k.limiter.time().After(p.startUntil)
	if isLate || p.losses != k.share.losses {
		k.unlock()
		p.Release()
		if p, err = k.limiter.Acquire(ctx, k.limit, k.id.key); err != nil {
			return nil, nil, err
		}
		return p.Start(ctx)
	}
	calling, cancel := context.WithCancelCause(ctx)
	k.cancels[p], p.began = cancel, k.limiter.time()
	k.unlock()
	returned, setReturned := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(calling, func() {
		pause(returned, lease) // A call that ignores its context keeps its place for one lease.
		p.Release()
	})
	return calling, func() {
		stop()
		setReturned()
		p.Release()
	}, nil
}

// Release returns a permit. Only the first call has an effect.
func (p *Permit) Release() {
	k := p.key
	k.lock <- struct{}{}
	defer k.unlock()
	if p.isReleased {
		return
	}
	k.loseIfDue()
	p.isReleased = true
	defer k.limiter.unuse(k) // This runs after the request, because a key with a request must not be forgotten.
	delete(k.cancels, p)
	took := time.Duration(0)
	if !p.began.IsZero() {
		took = k.limiter.time().Sub(p.began)
	}
	returns := k.share.end(k.limit, p.losses, took)
	if k.share.running == 0 {
		k.stop()
	}
	if returns {
		_, _ = k.request(context.Background(), 0) // If it fails, the place is free at the end of the lease.
	}
}

// pause waits and reports whether the context is still valid.
func pause(ctx context.Context, wait time.Duration) bool {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-waiting.Done()
	return ctx.Err() == nil
}
