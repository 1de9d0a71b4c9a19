package signup

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// CodeKeyBytesMin is the least length of Config.CodeKey.
const CodeKeyBytesMin = 16

// Config tunes the chart. The zero value is useful, but see CodeKey. A running timer keeps the
// deadline that it was started with when the config changes.
type Config struct {
	// CodeKey is a secret that keys the hash under which a code is stored: CodeKeyBytesMin
	// random bytes or more, or none. Without it, whoever sees a snapshot can find a short
	// code by trying all of them; six digits take less than a second. Set it where codes are
	// short and snapshots are shown to others. When it changes, the codes that are under way
	// turn wrong, and their users must ask for new ones.
	CodeKey []byte
	// Deadline is how long the user may take from SIGN_UP to the right code. Defaults to 24
	// hours.
	Deadline time.Duration
	// WrongCodesMax is how many wrong codes end the sign-up. Defaults to 5.
	WrongCodesMax int
	// ResendsMax is how often RESEND sends another mail. Defaults to 3.
	ResendsMax int
	// AddressChangesMax is how often CHANGE_ADDRESS is followed, so that nobody has us write
	// to strangers. Defaults to 3.
	AddressChangesMax int
	// ServiceTimeout limits one attempt to send a mail or to make an account. Defaults to 10
	// seconds.
	ServiceTimeout time.Duration
	// ServiceRetry says how a failed attempt is repeated. Defaults to 3 attempts, 5 and 10
	// seconds apart.
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
