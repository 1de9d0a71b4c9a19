package sqsquery

// input is the parameters of all operations together. Which operation has which of them the
// model decides: it refuses what an operation does not have. CreateQueue writes "tags" in
// JSON where the others write "Tags"; encoding/json reads either as the other.
var input = members{
	"AttributeName":              {"AttributeNames", list{text{}}},
	"Attribute":                  {"Attributes", dict{"Name", "Value", text{}}},
	"MaxNumberOfMessages":        {"MaxNumberOfMessages", number{}},
	"MaxResults":                 {"MaxResults", number{}},
	"MessageAttributeName":       {"MessageAttributeNames", list{text{}}},
	"MessageSystemAttributeName": {"MessageSystemAttributeNames", list{text{}}},
	"NextToken":                  {"NextToken", text{}},
	"QueueName":                  {"QueueName", text{}},
	"QueueNamePrefix":            {"QueueNamePrefix", text{}},
	"QueueOwnerAWSAccountId":     {"QueueOwnerAWSAccountId", text{}},
	"QueueUrl":                   {"QueueUrl", text{}},
	"ReceiptHandle":              {"ReceiptHandle", text{}},
	"ReceiveRequestAttemptId":    {"ReceiveRequestAttemptId", text{}},
	"Tag":                        {"Tags", dict{"Key", "Value", text{}}},
	"TagKey":                     {"TagKeys", list{text{}}},
	"VisibilityTimeout":          {"VisibilityTimeout", number{}},
	"WaitTimeSeconds":            {"WaitTimeSeconds", number{}},

	"DelaySeconds":           messageMembers["DelaySeconds"],
	"MessageAttribute":       messageMembers["MessageAttribute"],
	"MessageBody":            messageMembers["MessageBody"],
	"MessageDeduplicationId": messageMembers["MessageDeduplicationId"],
	"MessageGroupId":         messageMembers["MessageGroupId"],
	"MessageSystemAttribute": messageMembers["MessageSystemAttribute"],

	"SendMessageBatchRequestEntry": {"Entries", list{messageMembers}},
	"DeleteMessageBatchRequestEntry": {"Entries", list{members{
		"Id":            {"Id", text{}},
		"ReceiptHandle": {"ReceiptHandle", text{}},
	}}},
	"ChangeMessageVisibilityBatchRequestEntry": {"Entries", list{members{
		"Id":                {"Id", text{}},
		"ReceiptHandle":     {"ReceiptHandle", text{}},
		"VisibilityTimeout": {"VisibilityTimeout", number{}},
	}}},
}

var messageMembers = members{
	"Id":                     {"Id", text{}},
	"DelaySeconds":           {"DelaySeconds", number{}},
	"MessageAttribute":       {"MessageAttributes", dict{"Name", "Value", attributeMembers}},
	"MessageBody":            {"MessageBody", text{}},
	"MessageDeduplicationId": {"MessageDeduplicationId", text{}},
	"MessageGroupId":         {"MessageGroupId", text{}},
	"MessageSystemAttribute": {"MessageSystemAttributes", dict{"Name", "Value", attributeMembers}},
}

// attributeMembers are the members of a message attribute. A binary value is base64, in the
// form as in JSON.
var attributeMembers = members{
	"BinaryListValue": {"BinaryListValues", list{text{}}},
	"BinaryValue":     {"BinaryValue", text{}},
	"DataType":        {"DataType", text{}},
	"StringListValue": {"StringListValues", list{text{}}},
	"StringValue":     {"StringValue", text{}},
}

// element is how a list or map of an answer is written: an element for each item, and for
// an item of a map, two in it.
type element struct{ name, key, value string }

// elements are the lists and maps in answers, by their name in JSON, but for Successful,
// whose element has a name of its own in each operation. All else is written as an element
// of its own name.
var elements = map[string]element{
	"Attributes":        {"Attribute", "Name", "Value"},
	"Failed":            {name: "BatchResultErrorEntry"},
	"MessageAttributes": {"MessageAttribute", "Name", "Value"},
	"Messages":          {name: "Message"},
	"QueueUrls":         {name: "QueueUrl"},
	"Tags":              {"Tag", "Key", "Value"},
}
