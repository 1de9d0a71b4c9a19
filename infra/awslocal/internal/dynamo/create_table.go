package dynamo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// IndexesMax is the maximum number of global secondary indexes of a table (DynamoDB Developer Guide, "Service, account,
// and table quotas").
const IndexesMax = 20

// createTableRequest holds the supported parameters of CreateTable. The model validates the capacity and the billing
// mode, and returns them in descriptions. They never throttle a request.
type createTableRequest struct {
	TableName                 *string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	GlobalSecondaryIndexes    []globalSecondaryIndex
	BillingMode               string
	ProvisionedThroughput     *provisionedThroughput
	DeletionProtectionEnabled bool
	Tags                      []tag
}

type attributeDefinition struct {
	AttributeName string
	AttributeType string
}

type keySchemaElement struct {
	AttributeName string
	KeyType       string
}

type globalSecondaryIndex struct {
	IndexName             string
	KeySchema             []keySchemaElement
	Projection            projection
	ProvisionedThroughput *provisionedThroughput
}

type projection struct {
	ProjectionType   string
	NonKeyAttributes []string `json:",omitempty"`
}

type provisionedThroughput struct {
	ReadCapacityUnits  int64
	WriteCapacityUnits int64
}

// createTable creates a table that is ready at once. Like AWS, it returns the status CREATING. Descriptions of the
// table return ACTIVE.
func (m *Model) createTable(now time.Time, request *createTableRequest) (any, *wire.Error) {
	if request.TableName == nil {
		return nil, missing("tableName")
	}
	name := *request.TableName
	if failed := checkName("tableName", name); failed != nil {
		return nil, failed
	}
	if failed := request.checkBilling(); failed != nil {
		return nil, failed
	}
	t := &table{name: name, created: now, definition: *request, tags: request.Tags, kept: &m.kept}
	if failed := t.define(); failed != nil {
		return nil, failed
	}
	if failed := request.checkAllUsed(); failed != nil {
		return nil, failed
	}
	if _, exists := m.tables[name]; exists {
		return nil, wire.Errorf("ResourceInUseException", "Table already exists: %s", name)
	}
	m.tables[name] = t
	t.noteTable()
	return createTableAnswer{t.describe("CREATING")}, nil
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// checkName rejects invalid names of tables and indexes.
func checkName(parameter, name string) *wire.Error {
	switch {
	case len(name) < 3:
		return constraint(name, parameter, "Member must have length greater than or equal to 3")
	case len(name) > 255:
		return constraint(name, parameter, "Member must have length less than or equal to 255")
	case !namePattern.MatchString(name):
		return constraint(name, parameter, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	}
	return nil
}

func (r *createTableRequest) checkBilling() *wire.Error {
	if failed := checkEnum("billingMode", r.BillingMode, "PROVISIONED", "PAY_PER_REQUEST"); failed != nil {
		return failed
	}
	if r.BillingMode == "PAY_PER_REQUEST" {
		if r.ProvisionedThroughput != nil {
			return invalidParameter("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
		}
		return nil
	}
	if r.ProvisionedThroughput == nil {
		return invalidParameter("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return r.ProvisionedThroughput.check("provisionedThroughput")
}

func (p *provisionedThroughput) check(parameter string) *wire.Error {
	if p.ReadCapacityUnits < 1 {
		return constraint(fmt.Sprint(p.ReadCapacityUnits), parameter+".readCapacityUnits", "Member must have value greater than or equal to 1")
	}
	if p.WriteCapacityUnits < 1 {
		return constraint(fmt.Sprint(p.WriteCapacityUnits), parameter+".writeCapacityUnits", "Member must have value greater than or equal to 1")
	}
	return nil
}

// schema converts a key schema from its wire form.
func (r *createTableRequest) schema(elements []keySchemaElement) (keySchema, *wire.Error) {
	if len(elements) == 0 {
		return nil, missing("keySchema")
	}
	if len(elements) > 2 {
		return nil, constraint(fmt.Sprint(len(elements))+" elements", "keySchema", "Member must have length less than or equal to 2")
	}
	var schema keySchema
	for i, element := range elements {
		if failed := checkEnum("keySchema."+fmt.Sprint(i+1)+".member.keyType", element.KeyType, "HASH", "RANGE"); failed != nil {
			return nil, failed
		}
		if i == 0 && element.KeyType != "HASH" {
			return nil, validation("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
		}
		if i == 1 && element.KeyType != "RANGE" {
			return nil, validation("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
		}
		if schema.has(element.AttributeName) {
			return nil, validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
		}
		typ, failed := r.attributeType(element.AttributeName, elements)
		if failed != nil {
			return nil, failed
		}
		schema = append(schema, keyAttribute{name: element.AttributeName, typ: typ})
	}
	return schema, nil
}

// attributeType returns the type defined for a key attribute.
func (r *createTableRequest) attributeType(name string, keys []keySchemaElement) (attribute.Type, *wire.Error) {
	var defined []string
	for i, definition := range r.AttributeDefinitions {
		switch definition.AttributeType {
		case "S", "N", "B":
		default:
			return "", constraint(definition.AttributeType, fmt.Sprintf("attributeDefinitions.%d.member.attributeType", i+1),
				"Member must satisfy enum value set: [B, N, S]")
		}
		if definition.AttributeName == name {
			return attribute.Type(definition.AttributeType), nil
		}
		defined = append(defined, definition.AttributeName)
	}
	var wanted []string
	for _, key := range keys {
		wanted = append(wanted, key.AttributeName)
	}
	return "", invalidParameter("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
		strings.Join(wanted, ", "), strings.Join(defined, ", "))
}

// newIndexes creates the indexes of a table with the given key.
func (r *createTableRequest) newIndexes(tableKey keySchema) ([]*index, *wire.Error) {
	if r.GlobalSecondaryIndexes != nil && len(r.GlobalSecondaryIndexes) == 0 {
		return nil, invalidParameter("List of GlobalSecondaryIndexes is empty")
	}
	if len(r.GlobalSecondaryIndexes) > IndexesMax {
		return nil, invalidParameter("GlobalSecondaryIndex count exceeds the per-table limit of %d", IndexesMax)
	}
	var indexes []*index
	for _, definition := range r.GlobalSecondaryIndexes {
		if failed := checkName("globalSecondaryIndexes.member.indexName", definition.IndexName); failed != nil {
			return nil, failed
		}
		if slices.ContainsFunc(indexes, func(x *index) bool { return x.name == definition.IndexName }) {
			return nil, invalidParameter("Duplicate index name: %s", definition.IndexName)
		}
		if failed := r.checkIndexBilling(definition); failed != nil {
			return nil, failed
		}
		schema, failed := r.schema(definition.KeySchema)
		if failed != nil {
			return nil, failed
		}
		x := &index{name: definition.IndexName, schema: schema}
		if x.projected, failed = definition.Projection.attributes(schema, tableKey); failed != nil {
			return nil, failed
		}
		indexes = append(indexes, x)
	}
	return indexes, nil
}

// checkIndexBilling rejects an index that has provisioned capacity although its table has none, or the reverse.
func (r *createTableRequest) checkIndexBilling(definition globalSecondaryIndex) *wire.Error {
	perRequest := r.BillingMode == "PAY_PER_REQUEST"
	switch {
	case perRequest && definition.ProvisionedThroughput != nil:
		return invalidParameter("ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", definition.IndexName)
	case perRequest:
		return nil
	case definition.ProvisionedThroughput == nil:
		return invalidParameter("Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: %s", definition.IndexName)
	}
	return definition.ProvisionedThroughput.check("globalSecondaryIndexes.member.provisionedThroughput")
}

// attributes returns the attributes that an index projects, or nil if the index projects all attributes.
func (p projection) attributes(schemas ...keySchema) ([]string, *wire.Error) {
	switch p.ProjectionType {
	case "ALL", "KEYS_ONLY", "INCLUDE":
	case "":
		return nil, invalidParameter("Unknown ProjectionType: null")
	default:
		return nil, constraint(p.ProjectionType, "globalSecondaryIndexes.member.projection.projectionType", "Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]")
	}
	if p.ProjectionType != "INCLUDE" && p.NonKeyAttributes != nil {
		return nil, invalidParameter("ProjectionType is %s, but NonKeyAttributes is specified", p.ProjectionType)
	}
	if p.ProjectionType == "ALL" {
		return nil, nil
	}
	projected := slices.Clone(p.NonKeyAttributes)
	for _, schema := range schemas {
		for _, key := range schema {
			projected = append(projected, key.name)
		}
	}
	return projected, nil
}

// checkAllUsed rejects attribute definitions that no key uses.
func (r *createTableRequest) checkAllUsed() *wire.Error {
	used := slices.Clone(r.KeySchema)
	for _, index := range r.GlobalSecondaryIndexes {
		used = append(used, index.KeySchema...)
	}
	for _, definition := range r.AttributeDefinitions {
		if !slices.ContainsFunc(used, func(e keySchemaElement) bool { return e.AttributeName == definition.AttributeName }) {
			return invalidParameter("Some AttributeDefinitions are not used. AttributeDefinitions: [%s]", definition.AttributeName)
		}
	}
	return nil
}
