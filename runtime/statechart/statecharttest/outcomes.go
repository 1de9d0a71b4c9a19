package statecharttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// hangs is longer than any timeout.
const hangs = 1000 * time.Hour

// Outcomes is the sequence of outcomes of a fake service. Calls after the last listed outcome succeed. The words:
//
//	ok      the call succeeds
//	fail    it fails
//	refuse  it fails permanently: no retry
//	hang    it does not return until its timeout
//	20s     or another duration: it takes that long, then succeeds
type Outcomes struct {
	words []string
	calls int
}

// NewOutcomes parses outcomes. An unknown word is an error.
func NewOutcomes(words ...string) (*Outcomes, error) {
	for _, word := range words {
		if _, err := time.ParseDuration(word); err != nil && !slices.Contains([]string{"ok", "fail", "refuse", "hang"}, word) {
			return nil, fmt.Errorf("expected ok, fail, refuse, hang or a duration such as 20s, got %q in %s", word, strings.Join(words, ", "))
		}
	}
	return &Outcomes{words: words}, nil
}

// Next performs the next outcome. A fake service calls it and returns its error.
func (o *Outcomes) Next(ctx context.Context) error {
	word := "ok"
	if o.calls < len(o.words) {
		word = o.words[o.calls]
	}
	o.calls++
	switch word {
	case "ok":
		return nil
	case "fail":
		return errors.New("outcome fail")
	case "refuse":
		return statechart.Permanent(errors.New("outcome refuse"))
	case "hang":
		if err := Sleep(ctx, hangs); err != nil {
			return err
		}
		return errors.New("outcome hang needs a service with a timeout")
	}
	d, err := time.ParseDuration(word)
	if err != nil {
		return err
	}
	return Sleep(ctx, d)
}
