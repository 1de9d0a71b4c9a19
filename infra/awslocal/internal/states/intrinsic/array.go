package intrinsic

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// rangeMax is the maximum number of elements of States.ArrayRange.
const rangeMax = 1000

func array(a arguments) (any, error) { return a.values, nil }

func arrayPartition(a arguments) (any, error) {
	elements, err := a.array(0)
	if err != nil {
		return nil, err
	}
	size, err := a.integer(1)
	if err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, a.wrong(1, "a positive integer")
	}
	chunks := []any{}
	for len(elements) > 0 {
		n := min(size, len(elements))
		chunks = append(chunks, elements[:n:n])
		elements = elements[n:]
	}
	return chunks, nil
}

func arrayContains(a arguments) (any, error) {
	elements, err := a.array(0)
	if err != nil {
		return nil, err
	}
	return contains(elements, a.values[1]), nil
}

func contains(elements []any, value any) bool {
	for _, element := range elements {
		if document.Equal(element, value) {
			return true
		}
	}
	return false
}

// arrayRange counts from the first argument up or down to the second (inclusive), in steps of the third.
func arrayRange(a arguments) (any, error) {
	var limits [3]int
	for i := range limits {
		n, err := a.integer(i)
		if err != nil {
			return nil, err
		}
		limits[i] = n
	}
	first, last, step := limits[0], limits[1], limits[2]
	if step == 0 {
		return nil, a.wrong(2, "a number other than 0")
	}
	numbers := []any{}
	for n := first; (step > 0 && n <= last) || (step < 0 && n >= last); n += step {
		if len(numbers) == rangeMax {
			return nil, fmt.Errorf("the range has more than %d elements", rangeMax)
		}
		numbers = append(numbers, document.Int(n))
	}
	return numbers, nil
}

func arrayGetItem(a arguments) (any, error) {
	elements, err := a.array(0)
	if err != nil {
		return nil, err
	}
	i, err := a.integer(1)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(elements) {
		return nil, fmt.Errorf("the array has no element %d: its length is %d", i, len(elements))
	}
	return elements[i], nil
}

func arrayLength(a arguments) (any, error) {
	elements, err := a.array(0)
	if err != nil {
		return nil, err
	}
	return document.Int(len(elements)), nil
}

func arrayUnique(a arguments) (any, error) {
	elements, err := a.array(0)
	if err != nil {
		return nil, err
	}
	unique := []any{}
	for _, element := range elements {
		if !contains(unique, element) {
			unique = append(unique, element)
		}
	}
	return unique, nil
}

// jsonMerge merges two objects. Members of the second take precedence. Step Functions has no deep mode, so the third
// argument must be false.
func jsonMerge(a arguments) (any, error) {
	first, ok := a.values[0].(map[string]any)
	if !ok {
		return nil, a.wrong(0, "an object")
	}
	second, ok := a.values[1].(map[string]any)
	if !ok {
		return nil, a.wrong(1, "an object")
	}
	if a.values[2] != false {
		return nil, errors.New("argument 3 must be false: Step Functions does not support the deep merging mode")
	}
	merged := maps.Clone(first)
	maps.Copy(merged, second)
	return merged, nil
}

func mathAdd(a arguments) (any, error) {
	x, err := a.integer(0)
	if err != nil {
		return nil, err
	}
	y, err := a.integer(1)
	if err != nil {
		return nil, err
	}
	if sum := x + y; sum >= math.MinInt32 && sum <= math.MaxInt32 {
		return document.Int(sum), nil
	}
	return nil, fmt.Errorf("the sum of %d and %d is not between -2147483648 and 2147483647", x, y)
}

// mathRandom returns a number from the first argument (inclusive) to the second (exclusive). The third argument is an
// optional seed: the same seed returns the same number.
func mathRandom(a arguments) (any, error) {
	first, err := a.integer(0)
	if err != nil {
		return nil, err
	}
	end, err := a.integer(1)
	if err != nil {
		return nil, err
	}
	if end <= first {
		return nil, a.wrong(1, fmt.Sprintf("greater than %d", first))
	}
	drawn := a.random()
	if len(a.values) == 3 {
		seed, err := a.integer(2)
		if err != nil {
			return nil, err
		}
		drawn = sha256.Sum256(fmt.Append(nil, seed))
	}
	n := binary.BigEndian.Uint64(drawn[:]) % uint64(end-first)
	return document.Int(first + int(n)), nil
}
