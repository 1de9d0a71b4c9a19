// Package simulate has no code of its own, only tests: the whole runtime, from the webhook to
// the item, over the real SDK clients and awslocal, in virtual time and with faults.
package simulate
