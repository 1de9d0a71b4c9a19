// Package simulate contains only tests. They run the whole runtime, from the webhook to the item, on the real SDK
// clients and awslocal, in virtual time and with faults.
package simulate
