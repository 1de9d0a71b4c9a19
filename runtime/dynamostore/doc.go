// Package dynamostore keeps the records of instances in one DynamoDB table, one item an
// instance, readable as it stands in the console: native attribute types, not a JSON blob.
//
// # The item
//
// The partition key, instance, is the instance's name, as in "signup/42". A key of the
// snapshot becomes an attribute of its own, in snake case: chart_version, value, context,
// tags, history_value, timers, services, steps, output and so on; a key that has no
// attribute of its own is kept in the map "snapshot". Beside them stand the attributes of
// the record: state, status, revision, created_at, updated_at (RFC 3339), expire_at (epoch
// seconds, the table's TTL), watermark, recent_events, history, outbox, ignored, attempt and
// error. Empty ones are left out. Attributes that are not listed here are ignored, and
// dropped by the next commit.
//
// # The index
//
// A store of NewIndexed adds index_shard and index_key, the keys of the global secondary index by_state, which
// ListPage reads: "active/7" and "signup/unverified.registering/42".
//
// # Values
//
// What is stored comes back equal as JSON: null, empty strings, empty lists and maps
// included. Numbers keep their value to the last digit, not their spelling: DynamoDB trims
// zeros, so that 1.50 and 15e-1 come back as 1.5, and -0 as 0. Numbers that DynamoDB cannot
// hold are refused; see [NumberError].
//
// # Expiry
//
// DynamoDB deletes an item some time after its expire_at, up to days later. Until it does, the
// item is still the instance: Load returns it, so that late repeats of its events are still
// recognised and no second instance of the name is started. List returns it too.
package dynamostore
