package dynamo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

// service is an HTTP client for the SDK. A model answers its requests.
type service struct {
	mu    sync.Mutex
	now   time.Time
	model *dynamo.Model
}

// Do implements aws.HTTPClient.
func (s *service) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	s.mu.Lock()
	answer, failed := s.model.Call(s.now, operation, body)
	s.mu.Unlock()
	status := http.StatusOK
	if failed != nil {
		status = http.StatusBadRequest
		members := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + failed.Code, "message": failed.Message}
		maps.Copy(members, failed.Members)
		if answer, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	header := http.Header{"X-Amz-Crc32": {fmt.Sprint(crc32.ChecksumIEEE(answer))}, "Content-Type": {"application/x-amz-json-1.0"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(answer)), Request: request}, nil
}

// advance moves the service's clock.
func (s *service) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// start is the start time of every service's clock.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newService returns an empty DynamoDB and an SDK client for it.
func newService(t *testing.T) (*dynamodb.Client, *service) {
	t.Helper()
	s := &service{now: start, model: dynamo.New()}
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://dynamodb.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient:   s,
		Retryer:      aws.NopRetryer{},
	}), s
}

// newTable returns a client of a DynamoDB with an empty table called "table". keys holds the name of the partition key,
// whose type is string, and optionally the name and type of the sort key, such as "n:N".
func newTable(t *testing.T, keys ...string) *dynamodb.Client {
	t.Helper()
	client, _ := newService(t)
	createTable(t, client, "table", keys...)
	return client
}

func createTable(t *testing.T, client *dynamodb.Client, name string, keys ...string) {
	t.Helper()
	input := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for i, key := range keys {
		key, typ, _ := strings.Cut(key, ":")
		if typ == "" {
			typ = "S"
		}
		input.AttributeDefinitions = append(input.AttributeDefinitions, types.AttributeDefinition{AttributeName: &key, AttributeType: types.ScalarAttributeType(typ)})
		input.KeySchema = append(input.KeySchema, types.KeySchemaElement{AttributeName: &key, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
	}
	if _, err := client.CreateTable(t.Context(), input); err != nil {
		t.Fatal(err)
	}
}

// item is an item or key in the SDK's form.
type item = map[string]types.AttributeValue

// Short forms of attribute values.
type (
	list   = types.AttributeValueMemberL
	object = types.AttributeValueMemberM
)

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n any) types.AttributeValue    { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func nums(n ...string) types.AttributeValue {
	return &types.AttributeValueMemberNS{Value: n}
}
func strs(s ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: s}
}

// put stores an item in the table called "table".
func put(t *testing.T, client *dynamodb.Client, i item) {
	t.Helper()
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: i}); err != nil {
		t.Fatal(err)
	}
}

// get returns an item of the table called "table", or nil if it does not exist.
func get(t *testing.T, client *dynamodb.Client, key item) item {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// wantError fails the test unless err is an AWS error with this code whose message contains `part`.
func wantError(t *testing.T, err error, code, part string) {
	t.Helper()
	var failed smithy.APIError
	if !errors.As(err, &failed) || failed.ErrorCode() != code || !strings.Contains(failed.ErrorMessage(), part) {
		t.Errorf("error: want %s: ...%s..., got %v", code, part, err)
	}
}
