//go:build race

package simulate_test

// stride under the race detector: it is slow, and what it looks for does not depend on the call that is hit.
// make test plays all without it.
const stride = 4
