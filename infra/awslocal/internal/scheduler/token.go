package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// tokenLifetime is the time during which repeated requests with a ClientToken get the original answer. AWS does not
// document the time. awslocal uses the time for which DynamoDB remembers a ClientRequestToken.
const tokenLifetime = 10 * time.Minute

// tokens remembers the requests that have succeeded.
type tokens struct {
	answers ordered.Map[*tokenAnswer] // by operation, item and token
	expiry  ordered.Map[string]       // keys of answers, by expiry
}

type tokenAnswer struct {
	// Digest is the digest of the request. It distinguishes a repetition from another request with the same token.
	Digest string
	Answer string
	At     time.Time
}

func (a *tokenAnswer) expiryKey(key string) string { return timeKey(a.At.Add(tokenLifetime)) + key }

// once performs a request. For a repeated request with the same token it returns the original answer. It always
// performs a request that has no token, and a request that failed before.
func (m *Model) once(now time.Time, r *request, token string, perform func() (any, *wire.Error)) (any, *wire.Error) {
	if token == "" {
		return perform()
	}
	if err := checkLength("clientToken", token, 1, 64); err != nil {
		return nil, err
	}
	key := r.operation + "/" + r.item + "/" + token
	digest := sha256.Sum256([]byte(r.query.Encode() + "\n" + string(r.body)))
	if known, ok := m.tokens.answers.Get(key); ok {
		if known.Digest != hex.EncodeToString(digest[:]) {
			return nil, conflict("The ClientToken %s was used with another %s request; use a new one for each request.", token, r.operation)
		}
		return raw(known.Answer), nil
	}
	answer, err := perform()
	if err != nil {
		return nil, err
	}
	encoded := wire.Encode(answer)
	m.remember(key, &tokenAnswer{Digest: hex.EncodeToString(digest[:]), Answer: string(encoded), At: now.UTC()})
	return raw(encoded), nil
}

// raw is an answer already encoded as JSON.
type raw string

// MarshalJSON implements json.Marshaler.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func (m *Model) remember(key string, answer *tokenAnswer) {
	m.tokens.answers.Set(key, answer)
	m.tokens.expiry.Set(answer.expiryKey(key), key)
	m.touched.Note(tokenRecords + key)
}

// forgetTokens drops expired answers.
func (m *Model) forgetTokens(now time.Time) {
	for {
		expiry, key, found := "", "", false
		for expiry, key = range m.tokens.expiry.From("") {
			found = expiry[:len(timeKey(now))] <= timeKey(now)
			break
		}
		if !found {
			return
		}
		m.tokens.expiry.Delete(expiry)
		m.tokens.answers.Delete(key)
		m.touched.Note(tokenRecords + key)
	}
}
