package sqsquery

// input lists the parameters of all operations together. The model rejects the parameters that an operation does not
// have. In JSON, CreateQueue uses "tags" and the other operations use "Tags". encoding/json accepts either.
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

// attributeMembers lists the members of a message attribute. A binary value is base64, both in the form and in JSON.
var attributeMembers = members{
	"BinaryListValue": {"BinaryListValues", list{text{}}},
	"BinaryValue":     {"BinaryValue", text{}},
	"DataType":        {"DataType", text{}},
	"StringListValue": {"StringListValues", list{text{}}},
	"StringValue":     {"StringValue", text{}},
}

// element names the XML elements of a list or map. Each item has one element. In a map, this element contains an
// element for the key and one for the value.
type element struct{ name, key, value string }

// elements names the XML elements of the lists and maps in answers, by JSON name. It omits Successful, whose element
// name depends on the operation. Any other member is written as an element of the same name.
var elements = map[string]element{
	"Attributes":        {"Attribute", "Name", "Value"},
	"Failed":            {name: "BatchResultErrorEntry"},
	"MessageAttributes": {"MessageAttribute", "Name", "Value"},
	"Messages":          {name: "Message"},
	"QueueUrls":         {name: "QueueUrl"},
	"Tags":              {"Tag", "Key", "Value"},
}
