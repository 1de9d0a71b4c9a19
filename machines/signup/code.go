package signup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// hashCode returns HMAC-SHA-256 of the instance and the code, in hex. The instance salts it:
// the same code gives another hash in another sign-up. The key may be empty.
func hashCode(key []byte, instance, code string) string {
	mac := hmac.New(sha256.New, key)
	// No instance has a line feed in its name, so no two pairs write the same bytes.
	mac.Write([]byte(instance + "\n" + code))
	return hex.EncodeToString(mac.Sum(nil))
}

// matchesHash reports whether the code has the hash, in a time that does not tell where they
// differ. No code has the empty hash.
func matchesHash(key []byte, instance, code, hash string) bool {
	return hmac.Equal([]byte(hashCode(key, instance, code)), []byte(hash))
}
