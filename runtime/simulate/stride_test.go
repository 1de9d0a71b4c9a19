//go:build !race

package simulate_test

// stride is by how many calls the tests go on that play a fault at every call.
const stride = 1

// costScaleDefault is by what the numbers of events of the cost runs are divided; make cost plays all of them.
const costScaleDefault = 10
