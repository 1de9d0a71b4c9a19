package gateway

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
)

// Webhook describes a third party that signs its requests. The requests arrive at POST /webhooks/{name}. Both fields
// are required.
type Webhook struct {
	// Verify checks the signature of a request. If it returns an error, the request gets status 401. HMAC returns a
	// Verify function for the most common form of signature. Use SignedBy to write one for another form.
	Verify func(header http.Header, body []byte) error
	// Read converts a verified request to an event. If it returns an error, the request gets status 400.
	Read func(header http.Header, body []byte) (WebhookEvent, error)
}

// WebhookEvent is the event of a webhook.
type WebhookEvent struct {
	To instances.ID
	// Event is the event without "$id".
	Event json.RawMessage
	// ID is the third party's ID of the event. It becomes the event's $id, so a redelivery is applied once. Read must
	// take the ID from a part of the request that the signature covers. Otherwise, an attacker with one signed request
	// can change its ID and send it again. The ID defaults to a digest of the body. So if two different events can have
	// equal bodies, Read must return an ID. The gateway does not reserve the ID in the table, so webhooks are accepted
	// during a table outage.
	ID string
	// Answer is the JSON body of the response with status 200 if Event is nil, for example for a ping. The gateway then
	// queues no event.
	Answer any
}

// Secrets are the secrets that a sender may sign with. An empty secret accepts nothing.
type Secrets struct {
	Current []byte
	// Previous is also accepted, while the sender switches from one secret to another. It is empty at other times.
	Previous []byte
}

// errNoSecret gets the status of a wrong signature instead of a 5xx. Anybody can send a request to a webhook, and a 5xx
// raises an alarm.
var errNoSecret = errors.New("webhooks are rejected because no secret is configured: set one here and at the sender")

// HMAC returns a Verify function for the most common form of a signature. The header holds the prefix and the
// HMAC-SHA256 of the body in hexadecimal. GitHub, for example, uses X-Hub-Signature-256 with the prefix "sha256=".
func HMAC(header, prefix string, secrets Secrets) func(http.Header, []byte) error {
	return func(given http.Header, body []byte) error {
		signature, ok := strings.CutPrefix(given.Get(header), prefix)
		if !ok && !secrets.empty() {
			return fmt.Errorf("expected the header %s with %s and a signature: set a secret for the webhook at the sender", header, prefix)
		}
		if err := SignedBy(secrets, signature, body); err != nil {
			return fmt.Errorf("%s: %w", header, err)
		}
		return nil
	}
}

// SignedBy checks that the signature is the HMAC-SHA256 of the parts by one of the secrets, in hexadecimal. The
// comparison takes constant time.
func SignedBy(secrets Secrets, signature string, parts ...[]byte) error {
	if secrets.empty() {
		return errNoSecret
	}
	given, err := hex.DecodeString(signature)
	if err != nil || len(given) != sha256.Size {
		return fmt.Errorf("expected a signature of %d hexadecimal digits", hex.EncodedLen(sha256.Size))
	}
	signed := false
	for _, secret := range [][]byte{secrets.Current, secrets.Previous} {
		if len(secret) == 0 {
			continue
		}
		mac := hmac.New(sha256.New, secret)
		for _, part := range parts {
			mac.Write(part)
		}
		signed = hmac.Equal(mac.Sum(nil), given) || signed // The comparison takes the same time whichever secret matches.
	}
	if !signed {
		return errors.New("the signature does not match the body: use the same secret here and at the sender, and check that no proxy changes the body")
	}
	return nil
}

func (s Secrets) empty() bool { return len(s.Current) == 0 && len(s.Previous) == 0 }

// postWebhook queues the event of a webhook. It verifies the signature before it converts the request to an event.
func (a *api) postWebhook(r *http.Request) (reply, error) {
	webhook, known := a.config.Webhooks[r.PathValue("name")]
	if !known {
		return reply{}, fmt.Errorf("%w: unknown webhook %q", errNoRoute, r.PathValue("name"))
	}
	body, err := readBody(r, WebhookBytesMax)
	if err != nil {
		return reply{}, err
	}
	if err := webhook.Verify(r.Header, body); err != nil {
		return reply{}, fmt.Errorf("%w: %w", errSignature, err)
	}
	event, err := webhook.Read(r.Header, body)
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", errWebhook, err)
	case event.Event == nil:
		return reply{status: http.StatusOK, body: event.Answer}, nil
	}
	m, err := a.prepare(event.To, event.Event, cmp.Or(event.ID, bodyID(body)))
	if err != nil {
		return reply{}, err
	}
	return a.enqueue(r.Context(), m)
}

// bodyID returns the ID of a webhook's event if Read returned none. A redelivery has the same body, and so the same ID.
func bodyID(body []byte) string {
	sum := sha256.Sum256(body)
	return "body/" + hex.EncodeToString(sum[:16])
}
