package dynamo_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// wire converts an item to DynamoDB's JSON.
func wire(i plain) map[string]any {
	all := map[string]any{}
	for name, value := range i {
		all[name] = wireValue(value)
	}
	return all
}

func wireValue(v any) map[string]any {
	switch v := v.(type) {
	case string:
		return map[string]any{"S": v}
	case int:
		return map[string]any{"N": strconv.Itoa(v)}
	case []any:
		all := []any{}
		for _, element := range v {
			all = append(all, wireValue(element))
		}
		return map[string]any{"L": all}
	case members:
		return map[string]any{"SS": v}
	}
	return map[string]any{"M": wire(v.(plain))}
}

// decode decodes an item, or returns nil for an absent item.
func decode(answer any) plain {
	if answer == nil {
		return nil
	}
	return plainOf(answer.(map[string]any))
}

// throughJSON encodes and decodes a member of an error, because the model returns error members as Go values.
func throughJSON(member any) (answer any) {
	body, err := json.Marshal(member)
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		panic(err) // members of errors are JSON
	}
	return answer
}

func plainOf(wire map[string]any) plain {
	i := plain{}
	for name, value := range wire {
		i[name] = plainValue(value.(map[string]any))
	}
	return i
}

func plainValue(wire map[string]any) any {
	for typ, v := range wire {
		switch typ {
		case "S":
			return v
		case "N":
			n, err := strconv.Atoi(v.(string))
			if err != nil {
				return fmt.Sprint("not a whole number: ", v)
			}
			return n
		case "L":
			all := []any{}
			for _, element := range asList(v) {
				all = append(all, plainValue(element.(map[string]any)))
			}
			return all
		case "SS":
			var all members
			if set, ok := v.(members); ok {
				return set
			}
			for _, member := range asList(v) {
				all = append(all, member.(string))
			}
			slices.Sort(all)
			return all
		case "M":
			return plainOf(v.(map[string]any))
		}
	}
	return nil
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// sorted returns items in a deterministic order.
func sorted(items []plain) []plain {
	return slices.SortedFunc(slices.Values(items), func(a, b plain) int {
		return cmp.Compare(fmt.Sprint(a["id"], " ", a["k"]), fmt.Sprint(b["id"], " ", b["k"]))
	})
}
