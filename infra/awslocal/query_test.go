package awslocal_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// form sends a request in the query protocol as older SDKs do. It returns the status and the XML without its header.
func form(t *testing.T, cloud *awslocal.Cloud, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:4566"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	w := httptest.NewRecorder()
	cloud.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); got != "text/xml" {
		t.Errorf("Content-Type is %s, want text/xml", got)
	}
	return w.Code, strings.TrimPrefix(w.Body.String(), "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
}

// The requests have the form that botocore 1.29 and the Java SDK 1.12 send.
func TestQuery(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	const queue = "&QueueUrl=http%3A%2F%2F127.0.0.1%3A4566%2F000000000000%2Fq.fifo&Version=2012-11-05"
	handle := "" // the handle of the last received message
	for _, test := range []struct{ path, body, want string }{
		{"/", "Action=CreateQueue&QueueName=q.fifo&Attribute.1.Name=FifoQueue&Attribute.1.Value=true" +
			"&Attribute.2.Name=VisibilityTimeout&Attribute.2.Value=60&Tag.1.Key=team&Tag.1.Value=a%26b&Version=2012-11-05",
			`<QueueUrl>http://127.0.0.1:4566/000000000000/q.fifo</QueueUrl>`},
		{"/", "Action=GetQueueUrl&QueueName=q.fifo&Version=2012-11-05",
			`<QueueUrl>http://127.0.0.1:4566/000000000000/q.fifo</QueueUrl>`},
		{"/", "Action=ListQueues&QueueNamePrefix=q",
			`<QueueUrl>http://127.0.0.1:4566/000000000000/q.fifo</QueueUrl>`},
		{"/", "Action=ListQueueTags" + queue, `<Tag><Key>team</Key><Value>a&amp;b</Value></Tag>`},
		{"/", "Action=UntagQueue&TagKey.1=team" + queue, ``},
		{"/", "Action=GetQueueAttributes&AttributeName.1=FifoQueue&AttributeName.2=VisibilityTimeout" + queue,
			`<Attribute><Name>FifoQueue</Name><Value>true</Value></Attribute>` +
				`<Attribute><Name>VisibilityTimeout</Name><Value>60</Value></Attribute>`},
		{"/", "Action=SetQueueAttributes&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=30" + queue, ``},
		{"/", "Action=SendMessage&MessageBody=%3Ca+b%3D%22%C3%BC%22%3E%0A&MessageGroupId=a&MessageDeduplicationId=1" +
			"&MessageAttribute.1.Name=kind&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=x" +
			"&MessageAttribute.2.Name=blob&MessageAttribute.2.Value.DataType=Binary&MessageAttribute.2.Value.BinaryValue=AAH%2F" + queue,
			`<MD5OfMessageAttributes>721790069fa350f497039f3dc0a9b547</MD5OfMessageAttributes>` +
				`<MD5OfMessageBody>65fabaeefc830050b4adfd8605d9e963</MD5OfMessageBody>` +
				`<MessageId>M</MessageId><SequenceNumber>N</SequenceNumber>`},
		// The queue's URL may be the URL of the request instead of a parameter.
		{"/000000000000/q.fifo", "Action=ReceiveMessage&MaxNumberOfMessages=1&AttributeName.1=MessageGroupId&MessageAttributeName.1=All",
			`<Message><Attribute><Name>MessageGroupId</Name><Value>a</Value></Attribute>` +
				`<Body>&lt;a b=&#34;ü&#34;&gt;&#xA;</Body><MD5OfBody>65fabaeefc830050b4adfd8605d9e963</MD5OfBody>` +
				`<MD5OfMessageAttributes>721790069fa350f497039f3dc0a9b547</MD5OfMessageAttributes>` +
				`<MessageAttribute><Name>blob</Name><Value><BinaryValue>AAH/</BinaryValue><DataType>Binary</DataType></Value></MessageAttribute>` +
				`<MessageAttribute><Name>kind</Name><Value><DataType>String</DataType><StringValue>x</StringValue></Value></MessageAttribute>` +
				`<MessageId>M</MessageId><ReceiptHandle>H</ReceiptHandle></Message>`},
		{"/", "Action=ChangeMessageVisibility&VisibilityTimeout=0&ReceiptHandle=HANDLE" + queue, ``},
		{"/", "Action=ReceiveMessage&AttributeName.1=ApproximateReceiveCount" + queue,
			`<Message><Attribute><Name>ApproximateReceiveCount</Name><Value>2</Value></Attribute>` +
				`<Body>&lt;a b=&#34;ü&#34;&gt;&#xA;</Body><MD5OfBody>65fabaeefc830050b4adfd8605d9e963</MD5OfBody>` +
				`<MessageId>M</MessageId><ReceiptHandle>H</ReceiptHandle></Message>`},
		{"/", "Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.Id=one&DeleteMessageBatchRequestEntry.1.ReceiptHandle=HANDLE" +
			"&DeleteMessageBatchRequestEntry.2.Id=two&DeleteMessageBatchRequestEntry.2.ReceiptHandle=" + queue,
			`<BatchResultErrorEntry><Code>MissingParameter</Code><Id>two</Id><Message>The request must contain the ` +
				`parameter ReceiptHandle.</Message><SenderFault>true</SenderFault></BatchResultErrorEntry>` +
				`<DeleteMessageBatchResultEntry><Id>one</Id></DeleteMessageBatchResultEntry>`},
		{"/", "Action=SendMessageBatch" +
			"&SendMessageBatchRequestEntry.1.Id=one&SendMessageBatchRequestEntry.1.MessageBody=b1" +
			"&SendMessageBatchRequestEntry.1.MessageGroupId=b&SendMessageBatchRequestEntry.1.MessageDeduplicationId=b1" + queue,
			`<SendMessageBatchResultEntry><Id>one</Id><MD5OfMessageBody>edbab45572c72a5d9440b40bcc0500c0</MD5OfMessageBody>` +
				`<MessageId>M</MessageId><SequenceNumber>N</SequenceNumber></SendMessageBatchResultEntry>`},
		{"/", "Action=PurgeQueue" + queue, ``},
		{"/", "Action=ReceiveMessage" + queue, ``},
		{"/", "Action=DeleteQueue" + queue, ``},
	} {
		status, got := form(t, cloud, test.path, strings.ReplaceAll(test.body, "HANDLE", url.QueryEscape(handle)))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", test.body, status, got)
		}
		if found := regexp.MustCompile(`<ReceiptHandle>(.*)</ReceiptHandle>`).FindStringSubmatch(got); found != nil {
			handle = found[1]
		}
		operation := regexp.MustCompile(`Action=(\w+)`).FindStringSubmatch(test.body)[1]
		want := `<` + operation + `Response xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><` + operation + `Result>` +
			test.want + `</` + operation + `Result><ResponseMetadata><RequestId>R</RequestId></ResponseMetadata></` + operation + `Response>`
		if diff := cmp.Diff(want, withoutIDs(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.body, diff)
		}
	}
}

// withoutIDs replaces IDs, sequence numbers and receipt handles with letters.
func withoutIDs(xml string) string {
	for tag, letter := range map[string]string{"MessageId": "M", "SequenceNumber": "N", "ReceiptHandle": "H", "RequestId": "R"} {
		xml = regexp.MustCompile(`<`+tag+`>[^<]+</`+tag+`>`).ReplaceAllString(xml, `<`+tag+`>`+letter+`</`+tag+`>`)
	}
	return xml
}

func TestQuery_errors(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	for body, want := range map[string]string{
		"Action=GetQueueUrl&QueueName=absent":                  "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>",
		"Action=StartMessageMoveTask":                          "StartMessageMoveTask",
		"Action=CreateQueue&QueueName=q&Colour=red":            "Colour",
		"Action=CreateQueue&QueueName=q&MessageBody=x":         "MessageBody",
		"Action=CreateQueue&QueueName=q&Attribute.1.Name=Only": "Attribute.1.Value",
		"Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=x":   "WaitTimeSeconds",
		"QueueName=q": "Action",
	} {
		status, got := form(t, cloud, "/", body)
		if status != http.StatusBadRequest || !strings.Contains(got, want) || !strings.Contains(got, "<Type>Sender</Type>") {
			t.Errorf("%s: got %d %s, want 400 with %s", body, status, got, want)
		}
	}
}
