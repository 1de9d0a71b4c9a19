package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/gateway"
)

// errInterrupted is wrapped when the command was stopped before it was done.
var errInterrupted = errors.New("interrupted")

// stopped returns errInterrupted for the error of a call that failed because ctx ended, and other errors unchanged.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, errInterrupted) || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return errInterrupted
}

// until runs a function that cannot be interrupted, such as a read from a terminal. It returns the result, or ctx's
// error if ctx ends first.
func until[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// readInput reads standard input, up to one byte more than an event may have.
func (s *session) readInput(ctx context.Context) ([]byte, error) {
	return until(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(s.In, gateway.EventBytesMax+1)) })
}

// confirm asks a question on the terminal. If the answer is no, it returns an error that ends with otherwise.
func (s *session) confirm(ctx context.Context, question, otherwise string) error {
	s.writeErr("%s [y/N] ", question)
	answer, err := until(ctx, func() (string, error) { return bufio.NewReader(s.In).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("not confirmed, " + otherwise)
	}
	return nil
}

// wait returns after d, or with ctx's error when ctx ends.
func (s *session) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
