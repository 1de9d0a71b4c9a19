package conformance_test

import "time"

var dynamodbBehaviours = []behaviour{
	{name: "create_gsi", test: createGSI, promise: "CreateTable creates a table with two global secondary indexes, and DescribeTable returns them. A second table of the same name fails with ResourceInUseException, a missing table with ResourceNotFoundException."},
	{name: "put_if_absent", test: putIfAbsent, promise: "Of two puts with attribute_not_exists, the second fails and changes nothing."},
	{name: "put_version_check", test: putVersionCheck, promise: "A put with a condition on the version fails for a stale version and changes nothing."},
	{name: "ccf_return_all_old", test: ccfReturnAllOld, connection: true, promise: "ReturnValuesOnConditionCheckFailure=ALL_OLD adds the item to the error of PutItem, UpdateItem and DeleteItem."},
	{name: "update_expressions", test: updateExpressions, promise: "SET with arithmetic, if_not_exists, list_append and nested paths, REMOVE, ADD and DELETE work as documented, and ReturnValues returns the requested values."},
	{name: "update_upsert_guard", test: updateUpsertGuard, promise: "UpdateItem creates a missing item. With attribute_exists it fails."},
	{name: "transact_ok", test: transactOK, promise: "TransactWriteItems performs a put, an update, a delete and a check in two tables atomically."},
	{name: "transact_cancel_reasons", test: transactCancelReasons, connection: true, promise: "A failed condition cancels the transaction and writes nothing. The reasons are in the order of the items, with the item on request."},
	{name: "transact_two_failures", test: transactTwoFailures, promise: "The reasons include every failed condition."},
	{name: "transact_validation", test: transactValidation, promise: "A transaction with one item twice, or with more than 100 items, fails with ValidationException."},
	{name: "transact_idempotency", test: transactIdempotency, promise: "For ten minutes, a request with the same ClientRequestToken has no effect if it is identical, and fails as a mismatch if it differs."},
	{name: "transact_get", test: transactGet, promise: "TransactGetItems returns items of several tables in the requested order, with a gap for each missing item."},
	{name: "gsi_query_paged", test: gsiQueryPaged, promise: "A query of an index returns items in the order of the number sort key, in either direction, page by page. LastEvaluatedKey has the keys of table and index."},
	{name: "gsi_equal_sort_keys_paged", test: gsiEqualSortKeysPaged, promise: "Pages of an index neither skip nor repeat items with equal index keys."},
	{name: "gsi_projection_sparse", test: gsiProjectionSparse, promise: "An index contains the items that have its keys, after each update, with the projected attributes. It rejects consistent reads."},
	{name: "query_begins_with_between", test: queryBeginsWithBetween, promise: "begins_with, BETWEEN and comparisons select by sort key, in UTF-8 order. Select=COUNT counts."},
	{name: "filter_limit_semantics", test: filterLimitSemantics, promise: "Limit counts items before the filter, and Count counts items after it. A page that ends by Limit has a LastEvaluatedKey."},
	{name: "projection", test: projection, connection: true, promise: "ProjectionExpression selects nested paths and list elements, also by #name, in GetItem and Query."},
	{name: "validation_errors", test: validationErrors, promise: "Reserved words, unused or undefined values and names, and missing, empty or wrongly typed keys fail with ValidationException."},
	{name: "ttl_api", test: ttlAPI, promise: "UpdateTimeToLive enables and disables TTL, and DescribeTimeToLive returns its status."},
	{name: "ttl_expiry", test: ttlExpiry, takes: 49 * time.Hour, promise: "An expired item can still be read for a while, and is removed within two days, including from indexes. A deadline in milliseconds or of another type has no effect."},
	{name: "batch_write_get", test: batchWriteGet, promise: "A batch has up to 25 puts and deletes, or 100 keys to get, without duplicates. A rejected batch writes nothing."},
	{name: "item_size_limit", test: itemSizeLimit, promise: "An item may have 400 KB, attribute names included. A larger one is rejected in a put, an update and a transaction."},
	{name: "query_1mb_page", test: query1MBPage, promise: "A page of a query ends at 1 MB, with a LastEvaluatedKey."},
	{name: "types_roundtrip", test: typesRoundtrip, connection: true, promise: "Values of all types, also empty ones, are returned unchanged. Numbers have up to 38 digits and are returned in normal form."},
	{name: "concurrent_cas", test: concurrentCAS, connection: true, promise: "With a version check, no update of 16 writers is lost."},
	{name: "concurrent_transact", test: concurrentTransact, connection: true, promise: "Two items that 16 writers change in transactions never diverge."},
	{name: "consumed_capacity", test: consumedCapacity, promise: "ReturnConsumedCapacity=TOTAL returns the units: per 1 KB written, per 4 KB read, half for eventually consistent reads, double in transactions."},
}
