// Package dynamostore stores the records of instances in one DynamoDB table, one item per instance. An item uses
// DynamoDB's own types instead of one JSON text, so it is readable in the console.
//
// # The item
//
// The partition key, instance, is the instance's name, as in "signup/42". Each key of the snapshot becomes an attribute
// in snake case: chart_version, value, context, tags, history_value, timers, services, steps, output and so on. A key
// without an attribute goes into the map "snapshot". The record adds its attributes: state, status, revision,
// created_at, updated_at (RFC 3339) and expire_at (epoch seconds, the table's TTL). It also adds watermark,
// recent_events, last_sends, history, ignored, skipped, outbox, tokens, executions, parent, aliases, failed_effects,
// denied_since, attempts and error. Empty attributes are omitted. Load ignores other attributes, and the next commit
// drops them.
//
// # The index
//
// A store from NewIndexed adds index_shard and index_key, as in "active/7" and "signup/unverified.registering/42".
// They are the keys of the global secondary index by_state, which ListPage reads.
//
// # Values
//
// A stored value loads as equal JSON, including null, empty strings, and empty lists and maps. Numbers keep their
// value to the last digit, but not their spelling: DynamoDB trims zeros, so 1.50 and 15e-1 load as 1.5, and -0 as 0.
// Commit refuses numbers that DynamoDB cannot hold. See [NumberError].
//
// # Expiry
//
// DynamoDB deletes an item some time after its expire_at, up to days later. Until then, Load and List return the item.
// So the runtime still recognises late duplicates of its events, and starts no second instance of the same name.
package dynamostore
