package dynamo

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// tableRequest is a request whose only parameter is the table name.
type tableRequest struct {
	TableName *string
}

type createTableAnswer struct {
	TableDescription tableDescription
}

type describeTableAnswer struct {
	Table tableDescription
}

type tableDescription struct {
	TableName                 string
	TableArn                  string
	TableId                   string
	TableStatus               string
	CreationDateTime          float64
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	GlobalSecondaryIndexes    []indexDescription  `json:",omitempty"`
	BillingModeSummary        *billingModeSummary `json:",omitempty"`
	ProvisionedThroughput     throughputDescription
	DeletionProtectionEnabled bool
	ItemCount                 int
	TableSizeBytes            int
}

type billingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime float64
}

type throughputDescription struct {
	NumberOfDecreasesToday int
	ReadCapacityUnits      int64
	WriteCapacityUnits     int64
}

type indexDescription struct {
	IndexName             string
	IndexArn              string
	IndexStatus           string
	KeySchema             []keySchemaElement
	Projection            projection
	ProvisionedThroughput throughputDescription
	ItemCount             int
	IndexSizeBytes        int
}

// describe returns a description of the table. Counts and sizes are exact, while AWS's may be hours old.
func (t *table) describe(status string) tableDescription {
	d := tableDescription{
		TableName:                 t.name,
		TableArn:                  t.arn(),
		TableId:                   t.id(),
		TableStatus:               status,
		CreationDateTime:          epochSeconds(t.created),
		AttributeDefinitions:      t.definition.AttributeDefinitions,
		KeySchema:                 t.definition.KeySchema,
		ProvisionedThroughput:     t.definition.ProvisionedThroughput.describe(),
		DeletionProtectionEnabled: t.definition.DeletionProtectionEnabled,
		ItemCount:                 t.items.Len(),
		TableSizeBytes:            t.bytes,
	}
	if t.definition.BillingMode == "PAY_PER_REQUEST" {
		d.BillingModeSummary = &billingModeSummary{BillingMode: t.definition.BillingMode, LastUpdateToPayPerRequestDateTime: epochSeconds(t.created)}
	}
	for i, definition := range t.definition.GlobalSecondaryIndexes {
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, indexDescription{
			IndexName:             definition.IndexName,
			IndexArn:              t.arn() + "/index/" + definition.IndexName,
			IndexStatus:           status,
			KeySchema:             definition.KeySchema,
			Projection:            definition.Projection,
			ProvisionedThroughput: definition.ProvisionedThroughput.describe(),
			ItemCount:             t.indexes[i].entries.Len(),
			IndexSizeBytes:        t.indexes[i].bytes,
		})
	}
	return d
}

func (p *provisionedThroughput) describe() throughputDescription {
	if p == nil {
		return throughputDescription{}
	}
	return throughputDescription{ReadCapacityUnits: p.ReadCapacityUnits, WriteCapacityUnits: p.WriteCapacityUnits}
}

func (t *table) arn() string { return tableARNPrefix + t.name }

// id returns a UUID derived from the table's name and creation time. A new table of the same name gets a new ID, and
// the same calls at the same times get the same ID.
func (t *table) id() string {
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %d", t.name, t.created.UnixNano()))
	return fmt.Sprintf("%x-%x-%x-%x-%x", hash[0:4], hash[4:6], hash[6:8], hash[8:10], hash[10:16])
}

// epochSeconds returns the wire form of a timestamp, rounded down to milliseconds.
func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (m *Model) describeTable(now time.Time, request *tableRequest) (any, *wire.Error) {
	t, failed := m.namedTable(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	return describeTableAnswer{t.describe("ACTIVE")}, nil
}

// deleteTable deletes a table at once. Like AWS, it returns the status DELETING.
func (m *Model) deleteTable(now time.Time, request *tableRequest) (any, *wire.Error) {
	t, failed := m.namedTable(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	if t.definition.DeletionProtectionEnabled {
		return nil, validation("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	}
	t.noteAll()
	delete(m.tables, t.name)
	return createTableAnswer{t.describe("DELETING")}, nil
}

// namedTable is like the method table, but its error names the missing table. Operations on tables use it.
func (m *Model) namedTable(now time.Time, name *string) (*table, *wire.Error) {
	t, failed := m.table(now, name)
	if failed != nil && name != nil {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: Table: %s not found", *name)
	}
	return t, failed
}

// listTablesMax is the maximum and default page size of ListTables.
const listTablesMax = 100

type listTablesRequest struct {
	ExclusiveStartTableName *string
	Limit                   *int
}

type listTablesAnswer struct {
	TableNames             []string
	LastEvaluatedTableName string `json:",omitempty"`
}

func (m *Model) listTables(_ time.Time, request *listTablesRequest) (any, *wire.Error) {
	limit := listTablesMax
	if request.Limit != nil {
		limit = *request.Limit
		if failed := checkRange("limit", limit, 1, listTablesMax); failed != nil {
			return nil, failed
		}
	}
	answer := listTablesAnswer{TableNames: []string{}}
	for _, name := range slices.Sorted(maps.Keys(m.tables)) {
		if request.ExclusiveStartTableName != nil && name <= *request.ExclusiveStartTableName {
			continue
		}
		if len(answer.TableNames) == limit {
			answer.LastEvaluatedTableName = answer.TableNames[limit-1]
			break
		}
		answer.TableNames = append(answer.TableNames, name)
	}
	return answer, nil
}

type tag struct {
	Key   string
	Value string
}

type listTagsRequest struct {
	ResourceArn *string
	NextToken   *string
}

type listTagsAnswer struct {
	Tags []tag
}

// listTagsOfResource returns all tags in one page, in the order they were added.
func (m *Model) listTagsOfResource(now time.Time, request *listTagsRequest) (any, *wire.Error) {
	if request.ResourceArn == nil {
		return nil, missing("resourceArn")
	}
	if request.NextToken != nil {
		return nil, validation("The NextToken was not returned by ListTagsOfResource: %s", *request.NextToken)
	}
	t, failed := m.table(now, request.ResourceArn)
	if failed != nil || t.arn() != *request.ResourceArn {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", *request.ResourceArn)
	}
	return listTagsAnswer{append([]tag{}, t.tags...)}, nil
}
