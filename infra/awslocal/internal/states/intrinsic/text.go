package intrinsic

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// charactersMax is the maximum length of a string to encode, decode or hash.
const charactersMax = 10_000

// format replaces each {} of a template by a value. Strings are inserted as they are, other values as JSON.
func format(a arguments) (any, error) {
	template, ok := a.values[0].(literal)
	if !ok {
		s, err := a.string(0)
		if err != nil {
			return nil, err
		}
		template = literal(s)
	}
	var text strings.Builder
	used := 1
	for i := 0; i < len(template); i++ {
		switch {
		case template[i] == '\\' && i+1 < len(template):
			i++
			text.WriteByte(template[i])
		case strings.HasPrefix(string(template[i:]), "{}"):
			if used == len(a.values) {
				return nil, errors.New("the template has more {} than there are values")
			}
			if s, ok := a.values[used].(string); ok {
				text.WriteString(s)
			} else {
				text.WriteString(document.Encode(a.values[used]))
			}
			used++
			i++
		case template[i] == '{' || template[i] == '}':
			return nil, fmt.Errorf("unmatched '%c' in the template: write {} for a value, \\%c for the character", template[i], template[i])
		default:
			text.WriteByte(template[i])
		}
	}
	if used < len(a.values) {
		return nil, errors.New("the template has fewer {} than there are values")
	}
	return text.String(), nil
}

func stringToJSON(a arguments) (any, error) {
	text, err := a.string(0)
	if err != nil {
		return nil, err
	}
	value, err := document.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("the argument is not JSON: %w", err)
	}
	return value, nil
}

func jsonToString(a arguments) (any, error) { return document.Encode(a.values[0]), nil }

// stringSplit splits at each character of the second argument, and drops empty parts.
func stringSplit(a arguments) (any, error) {
	text, err := a.string(0)
	if err != nil {
		return nil, err
	}
	delimiters, err := a.string(1)
	if err != nil {
		return nil, err
	}
	parts := []any{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(delimiters, r) }) {
		parts = append(parts, part)
	}
	return parts, nil
}

// limited returns a string argument of at most charactersMax characters.
func (a arguments) limited(i int) (string, error) {
	text, err := a.string(i)
	if err == nil && utf8.RuneCountInString(text) > charactersMax {
		err = fmt.Errorf("argument %d is longer than %d characters", i+1, charactersMax)
	}
	return text, err
}

func base64Encode(a arguments) (any, error) {
	text, err := a.limited(0)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString([]byte(text)), nil
}

func base64Decode(a arguments) (any, error) {
	text, err := a.limited(0)
	if err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the argument is not Base64: %w", err)
	}
	if !utf8.Valid(decoded) {
		return nil, errors.New("the decoded argument is not UTF-8")
	}
	return string(decoded), nil
}

// hash returns the hexadecimal hash of a string, or of the JSON of another value.
func hash(a arguments) (any, error) {
	if _, ok := a.values[0].(string); !ok {
		a.values[0] = document.Encode(a.values[0])
	}
	text, err := a.limited(0)
	if err != nil {
		return nil, err
	}
	algorithm, err := a.string(1)
	if err != nil {
		return nil, err
	}
	var sum []byte
	switch algorithm {
	case "MD5":
		s := md5.Sum([]byte(text))
		sum = s[:]
	case "SHA-1":
		s := sha1.Sum([]byte(text))
		sum = s[:]
	case "SHA-256":
		s := sha256.Sum256([]byte(text))
		sum = s[:]
	case "SHA-384":
		s := sha512.Sum384([]byte(text))
		sum = s[:]
	case "SHA-512":
		s := sha512.Sum512([]byte(text))
		sum = s[:]
	default:
		return nil, a.wrong(1, "MD5, SHA-1, SHA-256, SHA-384 or SHA-512")
	}
	return hex.EncodeToString(sum), nil
}

// uuid returns a version 4 UUID.
func uuid(a arguments) (any, error) {
	b := a.random()
	return UUID([16]byte(b[:16])), nil
}

// UUID returns a version 4 UUID built from 16 bytes.
func UUID(b [16]byte) string {
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
