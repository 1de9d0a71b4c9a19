package conformance_test

import "time"

var dynamodbBehaviours = []behaviour{
	{name: "create_gsi", test: createGSI, promise: "CreateTable makes a table with two global secondary indexes, which DescribeTable answers; a second of the name is ResourceInUseException, none ResourceNotFoundException."},
	{name: "put_if_absent", test: putIfAbsent, promise: "Of two puts under attribute_not_exists the second fails and changes nothing."},
	{name: "put_version_check", test: putVersionCheck, promise: "A put under a condition on the version fails for a stale version and changes nothing."},
	{name: "ccf_return_all_old", test: ccfReturnAllOld, connection: true, promise: "ReturnValuesOnConditionCheckFailure=ALL_OLD puts the item into the error of PutItem, UpdateItem and DeleteItem."},
	{name: "update_expressions", test: updateExpressions, promise: "SET with arithmetic, if_not_exists, list_append and nested paths, REMOVE, ADD and DELETE do what they do, and ReturnValues answers what was asked for."},
	{name: "update_upsert_guard", test: updateUpsertGuard, promise: "UpdateItem creates an item that is absent; under attribute_exists it fails."},
	{name: "transact_ok", test: transactOK, promise: "TransactWriteItems makes a put, an update, a deletion and a check in two tables as one."},
	{name: "transact_cancel_reasons", test: transactCancelReasons, connection: true, promise: "A condition that fails cancels the transaction: its reasons stand at the items' places, with the item if asked for, and nothing is written."},
	{name: "transact_two_failures", test: transactTwoFailures, promise: "Each condition that fails is among the reasons."},
	{name: "transact_validation", test: transactValidation, promise: "An item twice, or more than 100 items, in a transaction are a ValidationException."},
	{name: "transact_idempotency", test: transactIdempotency, promise: "A ClientRequestToken makes a repeat have no effect for ten minutes, and another request a mismatch."},
	{name: "transact_get", test: transactGet, promise: "TransactGetItems answers items of several tables in the order asked for, with a gap where there is none."},
	{name: "gsi_query_paged", test: gsiQueryPaged, promise: "A query of an index goes in the order of its number sort key, in either direction, page by page; LastEvaluatedKey has the keys of table and index."},
	{name: "gsi_equal_sort_keys_paged", test: gsiEqualSortKeysPaged, promise: "Pages of an index lose and repeat nothing among items with equal index keys."},
	{name: "gsi_projection_sparse", test: gsiProjectionSparse, promise: "An index has the items that have its keys, as updates leave them, with the attributes that it projects; it refuses consistent reads."},
	{name: "query_begins_with_between", test: queryBeginsWithBetween, promise: "begins_with, BETWEEN and comparisons select by sort key, in the order of UTF-8; Select=COUNT counts."},
	{name: "filter_limit_semantics", test: filterLimitSemantics, promise: "Limit counts items before the filter, Count those after it, and a page that Limit ends has a LastEvaluatedKey."},
	{name: "projection", test: projection, connection: true, promise: "ProjectionExpression picks nested paths and list elements, by #name too, in GetItem and Query."},
	{name: "validation_errors", test: validationErrors, promise: "Reserved words, values and names unused or not defined, and keys that are missing, empty or of a wrong type are a ValidationException."},
	{name: "ttl_api", test: ttlAPI, promise: "UpdateTimeToLive enables and disables, DescribeTimeToLive tells."},
	{name: "ttl_expiry", test: ttlExpiry, takes: 49 * time.Hour, promise: "An expired item can be read for a while and is gone within two days, from indexes too; a deadline in milliseconds or of another type never comes."},
	{name: "batch_write_get", test: batchWriteGet, promise: "A batch has up to 25 puts and deletes, or 100 keys to get, none twice; one that is refused writes nothing."},
	{name: "item_size_limit", test: itemSizeLimit, promise: "An item may have 400 KB with its names: more is refused in a put, an update and a transaction."},
	{name: "query_1mb_page", test: query1MBPage, promise: "A page of a query ends at 1 MB, with a LastEvaluatedKey."},
	{name: "types_roundtrip", test: typesRoundtrip, connection: true, promise: "Values of all types come as they were put, empty ones too; numbers have 38 digits and come in their normal form."},
	{name: "concurrent_cas", test: concurrentCAS, connection: true, promise: "Of 16 writers with a version check no update is lost."},
	{name: "concurrent_transact", test: concurrentTransact, connection: true, promise: "Two items that 16 writers change in transactions never diverge."},
	{name: "consumed_capacity", test: consumedCapacity, promise: "ReturnConsumedCapacity=TOTAL answers the units: by 1 KB written, by 4 KB read, half for reads that may be stale, twice in transactions."},
}
