package recording

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// shownBytesMax is the longest value that a difference shows.
const shownBytesMax = 200

// differ returns the differences of two JSON values, each with its path. It compares the digits of numbers, so 1 and 1.0
// differ. All elements of a list have the same path.
func differ(path string, was, is json.RawMessage) []Row {
	return differIn(path, decoded(was), decoded(is))
}

// missing is the value of a key that an object does not have.
type missing struct{}

func decoded(text json.RawMessage) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return missing{}
	}
	return value
}

func differIn(path string, was, is any) (rows []Row) {
	switch a := was.(type) {
	case map[string]any:
		b, ok := is.(map[string]any)
		if !ok {
			break
		}
		both := maps.Clone(a)
		maps.Copy(both, b)
		for _, key := range slices.Sorted(maps.Keys(both)) {
			rows = append(rows, differIn(path+"."+key, member(a, key), member(b, key))...)
		}
		return rows
	case []any:
		b, ok := is.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			rows = append(rows, differIn(path+"[]", a[i], b[i])...)
		}
		return rows
	default:
		if was == is {
			return nil
		}
	}
	return []Row{{What: path, Expected: shown(was), Got: shown(is)}}
}

func member(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return missing{}
}

// shown returns a value for a message.
func shown(value any) string {
	if value == (missing{}) {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(text) > shownBytesMax {
		return string(bytes.ToValidUTF8(text[:shownBytesMax], nil)) + "..."
	}
	return string(text)
}
