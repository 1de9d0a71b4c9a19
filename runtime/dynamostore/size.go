package dynamostore

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// ItemBytesMax is DynamoDB's limit for an item: 400 KB.
const ItemBytesMax = 400 << 10

const (
	// deniedSinceBytes is the size of the attribute attrDeniedSince.
	deniedSinceBytes = len(attrDeniedSince) + len("2006-01-02T15:04:05.000Z")
	// collectionOverheadBytes is the size of a list or a map without its elements.
	collectionOverheadBytes = 3
	// elementOverheadBytes is added for each element of a list or a map.
	elementOverheadBytes = 1
)

// itemBytes estimates the size of an item, including attribute names, by the rules that DynamoDB documents:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
func itemBytes(item map[string]types.AttributeValue) int {
	size := 0
	for name, value := range item {
		size += len(name) + valueBytes(value)
	}
	return size
}

func valueBytes(value types.AttributeValue) int {
	switch value := value.(type) {
	case *types.AttributeValueMemberS:
		return len(value.Value)
	case *types.AttributeValueMemberN:
		digits, _ := significant(value.Value)
		return (digits+1)/2 + 1
	case *types.AttributeValueMemberL:
		size := collectionOverheadBytes
		for _, element := range value.Value {
			size += elementOverheadBytes + valueBytes(element)
		}
		return size
	case *types.AttributeValueMemberM:
		return collectionOverheadBytes + elementOverheadBytes*len(value.Value) + itemBytes(value.Value)
	default: // NULL and BOOL; encodeItem makes no others
		return 1
	}
}
