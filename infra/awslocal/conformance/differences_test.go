package conformance_test

// difference is a behaviour that an emulator lacks. It describes only the first failure in the behaviour's test, so the
// emulator may differ in more ways.
type difference struct {
	emulator, service, behaviour string
	// `does` describes what the emulator does instead of that behaviour.
	does string
	// `decides` is the title of the AWS document that requires the behaviour.
	decides string
	// byChance is set if the emulator differs only in some runs.
	byChance bool
}

const (
	noTransactions = "it does not support transactions"
	oneAGroup      = "a batch has at most one message per group"
	neverFires     = "schedules never fire"

	sqsReference       = "SQS API Reference: "
	sqsGuide           = "SQS Developer Guide: "
	dynamodbReference  = "DynamoDB API Reference: "
	dynamodbGuide      = "DynamoDB Developer Guide: "
	schedulerReference = "EventBridge Scheduler API Reference: "
	schedulerGuide     = "EventBridge Scheduler User Guide: "
)

var differences = []difference{
	{"fauxqs", "SQS", "err_fifo_params", "a group with a space is accepted", sqsReference + "SendMessage, MessageGroupId", false},
	{"fauxqs", "SQS", "order_in_group", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "group_lock_batch", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "visibility_expiry_order", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "partial_delete_then_expiry", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "dedup_content_based", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "dedup_scope", oneAGroup + ", or the scope is ignored", sqsReference + "CreateQueue, DeduplicationScope", false},
	{"fauxqs", "SQS", "unicode_body", "characters beyond U+FFFF are rejected", sqsReference + "SendMessage, MessageBody", false},
	{"fauxqs", "SQS", "longpoll_wake_on_expiry", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "longpoll_client_gone", "a message is lost to the client that hung up", sqsGuide + "Amazon SQS short and long polling", false},
	{"fauxqs", "SQS", "batch_send", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "batch_delete", oneAGroup, sqsGuide + "FIFO queue delivery logic", false},
	{"fauxqs", "SQS", "old_receipt_handle", "the old handle is accepted", sqsGuide + "Amazon SQS queue and message identifiers", false},
	{"fauxqs", "SQS", "expired_receipt_handle", "the expired handle is accepted", sqsReference + "DeleteMessage", false},
	{"fauxqs", "SQS", "bad_receipt_handle", "an invalid handle is accepted", sqsReference + "DeleteMessage, ReceiptHandleIsInvalid", false},
	{"fauxqs", "SQS", "approximate_counts", "messages past their timeout count as in flight", sqsReference + "GetQueueAttributes", false},
	{"fauxqs", "SQS", "purge_delete_queue", "a second purge within a minute is accepted", sqsReference + "PurgeQueue", false},
	{"fauxqs", "SQS", "receive_attempt_id", oneAGroup, sqsReference + "ReceiveMessage, ReceiveRequestAttemptId", false},
	{"fauxqs", "SQS", "standard_delay", "a delay of 901 s is accepted", sqsReference + "SendMessage, DelaySeconds", false},

	{"moto", "SQS", "err_fifo_params", "a group with a space is accepted", sqsReference + "SendMessage, MessageGroupId", false},
	{"moto", "SQS", "dedup_explicit", "the duplicate returns a new MessageId", sqsReference + "SendMessage, MessageDeduplicationId", false},
	{"moto", "SQS", "dedup_after_delete", "the duplicate is delivered after the first is deleted", sqsGuide + "Exactly-once processing in Amazon SQS", false},
	{"moto", "SQS", "dedup_content_based", "the duplicate returns a new MessageId", sqsReference + "SendMessage, MessageDeduplicationId", false},
	{"moto", "SQS", "dedup_scope", "the scope is ignored", sqsReference + "CreateQueue, DeduplicationScope", false},
	{"moto", "SQS", "system_attributes", "sequence numbers are random", sqsReference + "SendMessage, SequenceNumber", false},
	{"moto", "SQS", "longpoll_wake_on_delete", "the receive ends without the message", sqsGuide + "Amazon SQS short and long polling", false},
	{"moto", "SQS", "longpoll_wake_on_visibility_0", "the receive ends without the message", sqsGuide + "Amazon SQS short and long polling", false},
	{"moto", "SQS", "longpoll_client_gone", "a message is lost to the client that hung up", sqsGuide + "Amazon SQS short and long polling", true},
	{"moto", "SQS", "batch_send", "sequence numbers are random", sqsReference + "SendMessage, SequenceNumber", false},
	{"moto", "SQS", "old_receipt_handle", "the old handle is accepted", sqsGuide + "Amazon SQS queue and message identifiers", false},
	{"moto", "SQS", "expired_receipt_handle", "the expired handle is accepted", sqsReference + "DeleteMessage", false},
	{"moto", "SQS", "purge_delete_queue", "a second purge within a minute is accepted", sqsReference + "PurgeQueue", false},
	{"moto", "SQS", "size_limit", "attributes do not count", sqsGuide + "Amazon SQS message quotas", false},
	{"moto", "SQS", "receive_attempt_id", "ReceiveRequestAttemptId is ignored", sqsReference + "ReceiveMessage, ReceiveRequestAttemptId", false},
	{"moto", "SQS", "list_tags", "MaxResults is ignored", sqsReference + "ListQueues", false},

	{"dynalite", "DynamoDB", "ccf_return_all_old", "the error has no item", dynamodbReference + "PutItem, ReturnValuesOnConditionCheckFailure", false},
	{"dynalite", "DynamoDB", "update_expressions", "REMOVE of two list elements removes the wrong one", dynamodbGuide + "Update expressions, Removing elements from a list", false},
	{"dynalite", "DynamoDB", "transact_ok", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "transact_cancel_reasons", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "transact_two_failures", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "transact_validation", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "transact_idempotency", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "transact_get", noTransactions, dynamodbReference + "TransactGetItems", false},
	{"dynalite", "DynamoDB", "ttl_api", "it does not support TTL", dynamodbReference + "UpdateTimeToLive", false},
	{"dynalite", "DynamoDB", "item_size_limit", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "concurrent_transact", noTransactions, dynamodbReference + "TransactWriteItems", false},
	{"dynalite", "DynamoDB", "consumed_capacity", noTransactions, dynamodbReference + "TransactWriteItems", false},

	{"moto", "DynamoDB", "update_expressions", "the result of 1.5 - 0.5 is 1.0", dynamodbGuide + "Supported data types and naming rules, Numbers", false},
	{"moto", "DynamoDB", "update_upsert_guard", "an update without an expression is an internal error", dynamodbReference + "UpdateItem", false},
	{"moto", "DynamoDB", "transact_idempotency", "ClientRequestToken is ignored", dynamodbReference + "TransactWriteItems, ClientRequestToken", false},
	{"moto", "DynamoDB", "transact_get", "ProjectionExpression is ignored", dynamodbReference + "Get", false},
	{"moto", "DynamoDB", "filter_limit_semantics", "a page that ends at Limit has no LastEvaluatedKey if no items follow", dynamodbGuide + "Paginating table query results", false},
	{"moto", "DynamoDB", "projection", "one of two list elements is missing", dynamodbGuide + "Using projection expressions", false},
	{"moto", "DynamoDB", "validation_errors", "an undefined name is an internal error", dynamodbGuide + "Expression attribute names", false},
	{"moto", "DynamoDB", "ttl_api", "enabling TTL again is accepted", dynamodbReference + "UpdateTimeToLive", false},
	{"moto", "DynamoDB", "batch_write_get", "26 puts are accepted", dynamodbReference + "BatchWriteItem", false},
	{"moto", "DynamoDB", "item_size_limit", "an item of exactly 400 KB is rejected", dynamodbGuide + "DynamoDB item sizes and formats", false},
	{"moto", "DynamoDB", "types_roundtrip", "an attribute with an empty name is returned in another form", dynamodbReference + "AttributeValue", false},
	{"moto", "DynamoDB", "concurrent_transact", "an update by one of two concurrent writers is lost", dynamodbGuide + "Managing complex workflows with DynamoDB transactions", true},
	{"moto", "DynamoDB", "consumed_capacity", "a write of 10 KB costs one unit", dynamodbGuide + "DynamoDB read and write operations", false},

	{"moto", "Scheduler", "at_sqs_fifo", neverFires, schedulerGuide + "Schedule types in EventBridge Scheduler", false},
	{"moto", "Scheduler", "dead_letter", neverFires, schedulerGuide + "Configuring a schedule's dead-letter queue in EventBridge Scheduler", false},
	{"moto", "Scheduler", "delete_after_completion", neverFires, schedulerGuide + "Schedule types in EventBridge Scheduler", false},
	{"moto", "Scheduler", "delete_before_fire", neverFires, schedulerGuide + "Schedule types in EventBridge Scheduler", false},
	{"moto", "Scheduler", "errors", "at(tomorrow) is accepted", schedulerReference + "CreateSchedule, ScheduleExpression", false},
	{"moto", "Scheduler", "update_group_list", "a second group of the same name is accepted", schedulerReference + "CreateScheduleGroup, ConflictException", false},
}
