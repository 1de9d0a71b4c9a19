package attribute

// AppendOrderKey appends an encoding of a key value. The byte order of encodings is the order of Compare. No encoding
// is a prefix of another, so encodings can be concatenated. A key is a string, a number or a binary. AppendOrderKey
// panics for all other values.
//
// The encoding of a string or binary ends with 00 00, and each 00 inside the value becomes 00 FF. A number is encoded
// as its sign, exponent and digits. For negative numbers, the exponent and the digits are inverted.
func AppendOrderKey(dst []byte, value Value) []byte {
	switch value := value.(type) {
	case String:
		return append(appendOrderText(dst, string(value)), 0, 0)
	case Binary:
		return append(appendOrderText(dst, string(value)), 0, 0)
	case Number:
		return appendOrderNumber(dst, value)
	}
	panic("attribute: a value of this type cannot be a key")
}

// AppendOrderPrefix appends the common prefix of the encodings of all strings or binaries that start with value.
func AppendOrderPrefix(dst []byte, value Value) []byte {
	switch value := value.(type) {
	case String:
		return appendOrderText(dst, string(value))
	case Binary:
		return appendOrderText(dst, string(value))
	}
	panic("attribute: a value of this type has no prefixes")
}

func appendOrderText(dst []byte, text string) []byte {
	for i := range len(text) {
		dst = append(dst, text[i])
		if text[i] == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return dst
}

func appendOrderNumber(dst []byte, n Number) []byte {
	dst = append(dst, byte(n.sign()))
	if n.digits == "" {
		return dst
	}
	begin := len(dst)
	dst = append(dst, byte(n.exponent-NumberExponentMin)) // 256 exponents fit into a byte
	dst = append(dst, n.digits...)
	dst = append(dst, 0)
	if n.negative {
		for i := begin; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}
