package dynamo

import "github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"

// consumedCapacity is the ConsumedCapacity of a response.
type consumedCapacity struct {
	TableName              string
	CapacityUnits          float64
	ReadCapacityUnits      float64          `json:",omitempty"`
	WriteCapacityUnits     float64          `json:",omitempty"`
	Table                  *units           `json:",omitempty"`
	GlobalSecondaryIndexes map[string]units `json:",omitempty"`
}

type units struct {
	CapacityUnits      float64
	ReadCapacityUnits  float64 `json:",omitempty"`
	WriteCapacityUnits float64 `json:",omitempty"`
}

// readUnits returns the read capacity of one read of this many bytes: one unit for each 4 KB, at least one unit. An
// eventually consistent read costs half (the developer guide, "DynamoDB read and write operations").
func readUnits(bytes int, consistent bool) float64 {
	whole := float64(max(1, (bytes+4095)/4096))
	if consistent {
		return whole
	}
	return whole / 2
}

// writeUnits returns the write capacity of an item of this many bytes: one unit for each 1 KB.
func writeUnits(bytes int) float64 {
	return float64(max(1, (bytes+1023)/1024))
}

// capacity counts the units that a request consumes, for one table and its indexes.
type capacity struct {
	table   float64
	indexes map[string]float64
}

// addWrite adds the units of a write that replaces the item `old` with the item `changed`. The larger of the two items
// counts.
func (c *capacity) addWrite(t *table, old, changed attribute.Map) {
	c.table += writeUnits(max(old.Size(), changed.Size()))
	for _, index := range t.indexes {
		c.addIndex(index.name, index.writeUnits(old, changed))
	}
}

func (c *capacity) addIndex(name string, consumed float64) {
	if consumed == 0 {
		return
	}
	if c.indexes == nil {
		c.indexes = make(map[string]float64)
	}
	c.indexes[name] += consumed
}

// answer returns the units in the form that ReturnConsumedCapacity requests: TOTAL or INDEXES. For any other value it
// returns nil.
func (c *capacity) answer(returned, tableName string) *consumedCapacity {
	if returned != "TOTAL" && returned != "INDEXES" {
		return nil
	}
	consumed := &consumedCapacity{TableName: tableName, CapacityUnits: c.table}
	for _, index := range c.indexes {
		consumed.CapacityUnits += index // All units are multiples of 0.5, so the sum is exact in any order.
	}
	if returned == "TOTAL" {
		return consumed
	}
	consumed.Table = &units{CapacityUnits: c.table}
	for name, index := range c.indexes {
		if consumed.GlobalSecondaryIndexes == nil {
			consumed.GlobalSecondaryIndexes = make(map[string]units)
		}
		consumed.GlobalSecondaryIndexes[name] = units{CapacityUnits: index}
	}
	return consumed
}

// written returns the capacity of a single write.
func (t *table) written(returned string, old, changed attribute.Map) *consumedCapacity {
	var c capacity
	c.addWrite(t, old, changed)
	return c.answer(returned, t.name)
}
