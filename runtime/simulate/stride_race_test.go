//go:build race

package simulate_test

// stride under the race detector: it is slow, and what it looks for does not depend on the call that is hit.
// make test plays all without it.
const stride = 4

// costScaleDefault under the race detector: the figures do not depend on it, and make cost plays all without it.
const costScaleDefault = 25
