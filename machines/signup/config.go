package signup

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// CodeKeyBytesMin is the minimum length of Config.CodeKey.
const CodeKeyBytesMin = 16

// Config tunes the chart. The zero value is useful, but see CodeKey. A change does not affect timers that are already
// running.
type Config struct {
	// CodeKey is the secret key for the hash of a code: CodeKeyBytesMin random bytes or more, or none. Without a key,
	// anyone with access to a snapshot can find a short code by trying all codes. Six digits take less than a second. Set
	// a key if codes are short and other people see snapshots. A new key invalidates all codes in use, and users must
	// request new codes.
	CodeKey []byte
	// Deadline is how long after SIGN_UP the user can send the right code. Defaults to 24 hours.
	Deadline time.Duration
	// WrongCodesMax is the number of wrong codes that ends the sign-up. Defaults to 5.
	WrongCodesMax int
	// ResendsMax is how often RESEND sends another mail. Defaults to 3.
	ResendsMax int
	// AddressChangesMax limits CHANGE_ADDRESS events, so that users cannot use them to mail strangers. Defaults to 3.
	AddressChangesMax int
	// ServiceTimeout limits one attempt to send a mail or to create an account. Defaults to 10 seconds.
	ServiceTimeout time.Duration
	// ServiceRetry is the retry policy for failed attempts. Defaults to 3 attempts, 5 and 10 seconds apart.
	ServiceRetry statechart.RetryPolicy
}

func (c Config) withDefaults() Config {
	if c.Deadline == 0 {
		c.Deadline = 24 * time.Hour
	}
	if c.WrongCodesMax == 0 {
		c.WrongCodesMax = 5
	}
	if c.ResendsMax == 0 {
		c.ResendsMax = 3
	}
	if c.AddressChangesMax == 0 {
		c.AddressChangesMax = 3
	}
	if c.ServiceTimeout == 0 {
		c.ServiceTimeout = 10 * time.Second
	}
	if c.ServiceRetry == (statechart.RetryPolicy{}) {
		c.ServiceRetry = statechart.RetryPolicy{Attempts: 3, Interval: 5 * time.Second}
	}
	return c
}

func (c Config) validate() error {
	for _, duration := range []struct {
		field string
		value time.Duration
	}{{"Deadline", c.Deadline}, {"ServiceTimeout", c.ServiceTimeout}} {
		if duration.value < 0 {
			return fmt.Errorf("signup.Config: expected a positive %s, got %v", duration.field, duration.value)
		}
	}
	for _, limit := range []struct {
		field string
		value int
	}{{"WrongCodesMax", c.WrongCodesMax}, {"ResendsMax", c.ResendsMax}, {"AddressChangesMax", c.AddressChangesMax}} {
		if limit.value < 0 {
			return fmt.Errorf("signup.Config: expected a positive %s, got %d", limit.field, limit.value)
		}
	}
	if n := len(c.CodeKey); n > 0 && n < CodeKeyBytesMin {
		return fmt.Errorf("signup.Config: expected a CodeKey of at least %d bytes, or none, got %d", CodeKeyBytesMin, n)
	}
	return nil
}
