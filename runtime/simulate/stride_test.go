//go:build !race

package simulate_test

// stride is by how many calls the tests go on that play a fault at every call.
const stride = 1
