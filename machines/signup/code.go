package signup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// hashCode returns the HMAC-SHA-256 of the instance and the code, in hex. The instance is the salt: the same code has a
// different hash in each sign-up. The key may be empty.
func hashCode(key []byte, instance, code string) string {
	mac := hmac.New(sha256.New, key)
	// Names of instances contain no line feed, so different pairs write different bytes.
	mac.Write([]byte(instance + "\n" + code))
	return hex.EncodeToString(mac.Sum(nil))
}

// matchesHash reports, in constant time, whether the code has the hash. No code has the empty hash.
func matchesHash(key []byte, instance, code, hash string) bool {
	return hmac.Equal([]byte(hashCode(key, instance, code)), []byte(hash))
}
