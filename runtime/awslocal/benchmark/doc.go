// Command benchmark measures awslocal beside other emulators of SQS and DynamoDB, in one run
// over loopback, and prints one table (make bench-aws).
//
// Each server runs in a process of its own and is asked by the same clients, which write
// their requests without an SDK: an SDK's own work would hide the differences. Servers take
// turns within a round, so that all of them meet the same noise; a cell is the median of the
// rounds. Absolute figures say something of the machine, ratios of the servers.
package main
