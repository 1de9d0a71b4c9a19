package states

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// tokenPrefix starts every task token.
const tokenPrefix = "AAAAKgAAAAIAAAAA"

// tokenText returns the task token with a serial number. The token contains a hash of the number, so that used tokens
// can be distinguished from invalid ones.
func tokenText(serial uint64) string {
	token := binary.BigEndian.AppendUint64(nil, serial)
	for i := range 7 {
		sum := sha512.Sum512(fmt.Appendf(nil, "task token %d %d", serial, i))
		token = append(token, sum[:]...)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(token)
}

// tokenSerial returns the serial number of a token, or false if the model has never issued it.
func (m *Model) tokenSerial(text string) (uint64, bool) {
	if len(text) < len(tokenPrefix)+11 {
		return 0, false
	}
	head, err := base64.RawURLEncoding.DecodeString(text[len(tokenPrefix) : len(tokenPrefix)+11])
	if err != nil {
		return 0, false
	}
	serial := binary.BigEndian.Uint64(head)
	return serial, serial <= m.counters.Token && tokenText(serial) == text
}
