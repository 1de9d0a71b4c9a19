package enrich

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ProviderName is the name of the third party in callback addresses and aliases.
const ProviderName = "enricher"

// CallbackKeyBytesMin is the minimum length of a key of Callbacks.
const CallbackKeyBytesMin = 16

// Callbacks creates and verifies the addresses for the third party's callbacks. An address names one instance and a
// deadline. Without the key, an address cannot be created or changed. So a callback needs no signature, and no address
// needs to be stored.
type Callbacks struct {
	// Base is the gateway's address, such as https://api.example.com.
	Base string
	// Key makes addresses unguessable: CallbackKeyBytesMin random bytes or more.
	Key []byte
	// PreviousKey is the former Key during a rotation, and empty at other times. Verify accepts addresses signed with
	// either key, and Address signs with both. So the consumer and the gateway may start and end a rotation in any order.
	// Without PreviousKey, addresses signed with only the former key are invalid.
	PreviousKey []byte
}

// Validate checks Base and the keys.
func (c Callbacks) Validate() error {
	base, err := url.Parse(c.Base)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return fmt.Errorf("enrich.Callbacks: expected a Base such as https://api.example.com, got %q", c.Base)
	}
	if len(c.Key) < CallbackKeyBytesMin {
		return fmt.Errorf("enrich.Callbacks: expected a Key of at least %d bytes, got %d", CallbackKeyBytesMin, len(c.Key))
	}
	if size := len(c.PreviousKey); size > 0 && size < CallbackKeyBytesMin {
		return fmt.Errorf("enrich.Callbacks: expected a PreviousKey of at least %d bytes, or none, got %d", CallbackKeyBytesMin, size)
	}
	return nil
}

// signatures separates the signatures of the two keys in an address.
const signatures = "."

// Address returns the address for callbacks to an instance "enrich/ID" until the deadline:
// Base/webhooks/enricher/ID/SECONDS/KEY. It truncates the deadline to whole seconds. During a rotation, KEY is
// SIGNATURE.SIGNATURE, so a gateway with only one of the two keys accepts the address.
func (c Callbacks) Address(instance string, deadline time.Time) string {
	_, id, _ := strings.Cut(instance, "/")
	until := strconv.FormatInt(deadline.Unix(), 10)
	key := sign(c.Key, instance, until)
	if len(c.PreviousKey) > 0 {
		key += signatures + sign(c.PreviousKey, instance, until)
	}
	return strings.TrimSuffix(c.Base, "/") + "/webhooks/" + ProviderName + "/" + url.PathEscape(id) + "/" + until + "/" + key
}

// Verify returns the deadline of an address, given the address's parts. It returns false if neither key signed the
// address.
func (c Callbacks) Verify(instance, until, key string) (deadline time.Time, ok bool) {
	first, second, _ := strings.Cut(key, signatures)
	for _, known := range [][]byte{c.Key, c.PreviousKey} {
		if len(known) == 0 {
			continue
		}
		for _, given := range []string{first, second} { // Compare with both, so that the time does not show which one matches.
			ok = hmac.Equal([]byte(sign(known, instance, until)), []byte(given)) || ok
		}
	}
	if !ok {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(until, 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// sign returns the HMAC of an address. No part contains a line break, so different addresses always have different
// signed texts.
func sign(key []byte, instance, until string) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "settle callback 1\n%s\n%s\n%s", ProviderName, instance, until)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ErrCallback is returned by ReadCallback if the body is not a callback of the third party.
var ErrCallback = errors.New("not a callback of the third party")

// DataBytesMax limits the data of a callback. If the data is larger, the callback counts as a failure: the third
// party must store the data elsewhere and send its location. An item holds at most 400 KB, and for a moment it holds
// the data twice: in the context and in the effect that answers the task. DynamoDB also stores small numbers in more
// bytes than JSON does.
const DataBytesMax = 96 << 10

// unknownFailure is the text of a failure without an explanation.
const unknownFailure = "the third party gave no reason"

// ReadCallback decodes the body of a callback, {"jobId", "success", "data", "error"}. It returns the instance's alias
// and the event to send to it. The event is SUCCEEDED if success is true and there is data of at most DataBytesMax.
// Otherwise, it is FAILED. Other keys are ignored. Errors wrap ErrCallback.
func ReadCallback(body []byte) (alias string, event json.RawMessage, err error) {
	var callback struct {
		JobID   string          `json:"jobId"`
		Success bool            `json:"success"`
		Data    json.RawMessage `json:"data"`
		Error   json.RawMessage `json:"error"`
	}
	if err := readBody(body, &callback); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrCallback, err)
	}
	if err := checkJobID(callback.JobID); err != nil {
		return "", nil, fmt.Errorf("%w: under \"jobId\": %w", ErrCallback, err)
	}
	if size := len(callback.Data); size > DataBytesMax {
		callback.Success = false
		callback.Error, _ = json.Marshal( // a string always marshals
			fmt.Sprintf("the third party sent %d bytes of data, but the limit is %d", size, DataBytesMax))
	}
	if callback.Success && !isNull(callback.Data) {
		event, err = json.Marshal(struct {
			Type string `json:"type"`
			Succeeded
		}{"SUCCEEDED", Succeeded{Data: callback.Data}})
	} else {
		event, err = json.Marshal(struct {
			Type string `json:"type"`
			Failure
		}{"FAILED", Failure{Error: textOf(callback.Error, callback.Success)}})
	}
	return Alias(callback.JobID), event, err
}

// readBody decodes the body of a callback. Its errors are for the third party, and quote nothing from the body.
func readBody(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("expected a JSON object, got %d bytes that are not JSON at byte %d: send one such as "+bodyExample, len(body), syntax.Offset)
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return fmt.Errorf("expected a %v under %q, got a %s: send an object such as "+bodyExample, mismatch.Type, mismatch.Field, mismatch.Value)
	case err != nil:
		return errors.New("expected a JSON object: send one such as " + bodyExample)
	}
	return nil
}

// bodyExample is an example of a callback's body.
const bodyExample = `{"jobId": "7", "success": true, "data": {}}`

// textOf returns the text of a failure: the third party's string, the JSON text of any other value, or a default.
func textOf(value json.RawMessage, success bool) string {
	var text string
	switch {
	case isNull(value) && success:
		return "the third party reported success without data"
	case isNull(value):
		return unknownFailure
	case json.Unmarshal(value, &text) != nil:
		return string(value)
	case text == "":
		return unknownFailure
	default:
		return text
	}
}
