package attribute

// Size returns the size of an item in bytes, including attribute names, by the rules of the developer guide,
// "DynamoDB item sizes and formats".
func (m Map) Size() int {
	size := 0
	for _, field := range m {
		size += len(field.Name) + sizeOf(field.Value)
	}
	return size
}

const (
	// collectionOverheadBytes is the overhead of a list or map.
	collectionOverheadBytes = 3
	// elementOverheadBytes is the overhead of each element of a list or map.
	elementOverheadBytes = 1
)

func sizeOf(value Value) int {
	size := 0
	switch value := value.(type) {
	case String:
		size = len(value)
	case Binary:
		size = len(value)
	case Number:
		size = value.size()
	case Bool, Null:
		size = 1
	case StringSet:
		for _, member := range value {
			size += len(member)
		}
	case BinarySet:
		for _, member := range value {
			size += len(member)
		}
	case NumberSet:
		for _, member := range value {
			size += member.size()
		}
	case List:
		size = collectionOverheadBytes + elementOverheadBytes*len(value)
		for _, element := range value {
			size += sizeOf(element)
		}
	case Map:
		size = collectionOverheadBytes + elementOverheadBytes*len(value) + value.Size()
	}
	return size
}

// size returns one byte for every two significant digits, plus one.
func (n Number) size() int {
	return (len(n.digits)+1)/2 + 1
}
