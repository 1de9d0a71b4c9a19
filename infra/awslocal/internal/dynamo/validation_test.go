package dynamo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

func TestValidation_messages(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	putting := func(i item) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: i})
			return err
		}
	}
	getting := func(key item) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key})
			return err
		}
	}
	updating := func(expression string, names map[string]string, values item) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String("table"), Key: item{"id": str("a")}, UpdateExpression: &expression,
				ExpressionAttributeNames: names, ExpressionAttributeValues: values,
			})
			return err
		}
	}
	for name, test := range map[string]struct {
		call    func(*testing.T) error
		message string
	}{
		"reserved word":      {updating("SET status = :s", nil, item{":s": num(1)}), "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: status"},
		"unused value":       {updating("SET x = :s", nil, item{":s": num(1), ":t": num(1)}), "Value provided in ExpressionAttributeValues unused in expressions: keys: {:t}"},
		"unused name":        {updating("REMOVE x", map[string]string{"#a": "a"}, nil), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
		"undefined value":    {updating("SET x = :s", nil, nil), "Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :s"},
		"undefined name":     {updating("REMOVE #x", nil, nil), "Invalid UpdateExpression: An expression attribute name used in the document path is not defined; attribute name: #x"},
		"syntax":             {updating("SET x == :s", nil, item{":s": num(1)}), `Invalid UpdateExpression: Syntax error; token: "=", near: "==`},
		"no key in item":     {putting(item{"other": str("a")}), "Missing the key id in the item"},
		"type of key":        {putting(item{"id": num(1)}), "Type mismatch for key id expected: S actual: N"},
		"empty key":          {putting(item{"id": str("")}), "The AttributeValue for a key attribute cannot contain an empty string value. Key: id"},
		"long key":           {putting(item{"id": str(strings.Repeat("x", 2049))}), "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		"key of other names": {getting(item{"other": str("a")}), "The provided key element does not match the schema"},
		"key of more names":  {getting(item{"id": str("a"), "other": str("a")}), "The provided key element does not match the schema"},
		"key of other type":  {getting(item{"id": num(1)}), "The provided key element does not match the schema"},
		"empty key to get":   {getting(item{"id": str("")}), "cannot contain an empty string value"},
		"path into the key": {func(t *testing.T) error {
			_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: aws.String("table"), Key: item{"id": str("a")}, ConditionExpression: aws.String("attribute_exists(id.x)"),
			})
			return err
		}, "Key attributes must be scalars"},
		"values without expression": {func(t *testing.T) error {
			_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
				TableName: aws.String("table"), Item: item{"id": str("a")}, ExpressionAttributeValues: item{":v": num(1)},
			})
			return err
		}, "ExpressionAttributeValues can only be specified when using expressions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, test.call(t), "ValidationException", test.message)
		})
	}
}

func TestQuery_rejects_bad_key_conditions(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k:N")
	for condition, message := range map[string]string{
		"k = :a":                       "Query condition missed key schema element: id",
		"id = :a AND x = :a":           "Query condition missed key schema element: k",
		"id > :a":                      "Query key condition not supported",
		"id = :a AND k = :a":           "Condition parameter type does not match schema type",
		"id = :a OR k = :a":            "Invalid operator used in KeyConditionExpression: OR",
		"id = :a AND k <> :a":          "Invalid operator used in KeyConditionExpression: <>",
		"id = :a AND id = :a":          "must only contain one condition per key",
		"id = :a AND k.x = :a":         "cannot have conditions on nested attributes",
		"id = :a AND contains(k, :a)":  "Invalid operator used in KeyConditionExpression: contains",
		"id = :a AND size(k) = :a":     "KeyConditionExpressions cannot contain nested operations",
		"id = :a AND k = x":            "Multiple attribute names used in one condition",
		"id = :a AND begins_with(k,x)": "Multiple attribute names used in one condition",
		"id = :a AND NOT k = :a":       "Invalid operator used in KeyConditionExpression: NOT",
		"id = ":                        `Invalid KeyConditionExpression: Syntax error; token: "<EOF>", near: "="`,
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			_, err := client.Query(t.Context(), &dynamodb.QueryInput{
				TableName: aws.String("table"), KeyConditionExpression: &condition, ExpressionAttributeValues: item{":a": str("a")},
			})
			wantError(t, err, "ValidationException", message)
		})
	}
	filtered := query("a", "", item{":v": num(1)})
	filtered.FilterExpression = aws.String("k = :v")
	_, err := client.Query(t.Context(), filtered)
	wantError(t, err, "ValidationException", "Filter Expression can only contain non-primary key attributes: Primary key attribute: k")
	started := query("a", "", nil)
	started.ExclusiveStartKey = item{"id": str("b"), "k": num(1)}
	_, err = client.Query(t.Context(), started)
	wantError(t, err, "ValidationException", "The provided starting key is outside query boundaries")
}

// TestCall_rejects sends requests that the SDK would not send.
func TestCall_rejects(t *testing.T) {
	t.Parallel()
	m := dynamo.New()
	call := func(operation, body string) (code, message string) {
		_, failed := m.Call(time.Unix(0, 0), operation, []byte(body))
		if failed == nil {
			return "", ""
		}
		return failed.Code, failed.Message
	}
	const table = `{"TableName": "table", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`
	if code, message := call("CreateTable", table); code != "" {
		t.Fatal(code, message)
	}
	deep := strings.Repeat(`{"L": [`, 33) + strings.Repeat(`]}`, 33)
	for _, test := range []struct{ operation, body, code, message string }{
		{"ExecuteStatement", `{}`, "UnknownOperationException", "ExecuteStatement"},
		{"UpdateTable", `{}`, "UnknownOperationException", "UpdateTable"},
		{"PutItem", `[`, "SerializationException", "not a JSON object"},
		{"PutItem", "{\"TableName\": \"\xff\"}", "SerializationException", "UTF-8"},
		{"PutItem", `{"TableName": 3}`, "SerializationException", "TableName"},
		{"PutItem", `{"tablename": "table"}`, "ValidationException", "The parameter tablename is not supported"},
		{"PutItem", `{"conditional": {}}`, "ValidationException", "The parameter conditional is not supported"},
		{"PutItem", `{"Expected": {}}`, "ValidationException", "The parameter Expected is not supported"},
		{"PutItem", `{"Item": {"id": {"S": "a", "X": "b"}}}`, "ValidationException", "The parameter X of Item is not supported"},
		{"PutItem", `{"TableName": "table", "Item": null}`, "ValidationException", "Value null at 'item'"},
		{"PutItem", `{"TableName": "table", "Item": {"id": {}}}`, "ValidationException", "Supplied AttributeValue is empty"},
		{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "a", "N": "1"}}}`, "ValidationException", "more than one datatypes set"},
		{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}, "b": {"B": "%"}}}`, "SerializationException", "Item"},
		{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}, "l": ` + deep + `}}`, "ValidationException", "Nesting Levels have exceeded supported limits"},
		{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}}, "ReturnValues": "SOME"}`, "ValidationException", "Member must satisfy enum value set"},
		{"UpdateItem", `{"AttributeUpdates": {}}`, "ValidationException", "AttributeUpdates"},
		{"GetItem", `{"AttributesToGet": []}`, "ValidationException", "AttributesToGet"},
		{"Query", `{"KeyConditions": {}}`, "ValidationException", "KeyConditions"},
		{"Query", `{"QueryFilter": {}}`, "ValidationException", "QueryFilter"},
		{"Scan", `{"ScanFilter": {}}`, "ValidationException", "ScanFilter"},
		{"Scan", `{"ConditionalOperator": "AND"}`, "ValidationException", "ConditionalOperator"},
		{"BatchGetItem", `{"RequestItems": {"table": {"AttributesToGet": ["a"]}}}`, "ValidationException", "The parameter AttributesToGet of RequestItems is not supported"},
		{"TransactWriteItems", `{"TransactItems": [{"Put": {"Expected": {}}}]}`, "ValidationException", "The parameter Expected of TransactItems is not supported"},
		{"UpdateItem", `{"TableName": "table", "Key": {"id": {"S": "a"}}, "UpdateExpression": "SET x = :v", "ExpressionAttributeValues": {":v": {"N": "one"}}}`,
			"ValidationException", "ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value: one for key :v"},
		{"GetItem", `{}`, "ValidationException", "Value null at 'key'"},
		{"DeleteTable", `{}`, "ValidationException", "Value null at 'tableName'"},
	} {
		code, message := call(test.operation, test.body)
		if code != test.code || !strings.Contains(message, test.message) {
			t.Errorf("%s %s: want %s: ...%s..., got %s: %s", test.operation, test.body, test.code, test.message, code, message)
		}
	}
	withinLimit := strings.Repeat(`{"L": [`, 32) + strings.Repeat(`]}`, 32)
	if code, message := call("PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}, "l": `+withinLimit+`}}`); code != "" {
		t.Errorf("nesting of 32: %s: %s", code, message)
	}
}
