// Command benchmark compares awslocal with other emulators of SQS and DynamoDB. It measures all of them in one run
// over loopback and prints one table (make bench-aws).
//
// Each server runs in its own process. The same clients call all servers and write their requests without an SDK,
// because the SDK's cost would hide the differences. Servers take turns within a round, so that all of them see the
// same noise. A cell shows the median of the rounds. Absolute figures depend on the machine. Ratios compare the
// servers.
package main
