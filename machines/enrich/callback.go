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

	"github.com/settle-run/settle/runtime/statechart"
)

// ProviderName is the name of the third party in the addresses of callbacks and in aliases.
const ProviderName = "enricher"

// CallbackKeyBytesMin is the shortest key that addresses are made with.
const CallbackKeyBytesMin = 16

// Callbacks makes and checks the addresses that the third party calls back at. An address names one instance
// and is good until one time; who does not have the key cannot make one, nor change what it says. So a
// callback needs no signature of the third party's, and nothing is stored for addresses that were made.
type Callbacks struct {
	// Base is the gateway's own address, such as https://api.example.com.
	Base string
	// Key makes addresses unguessable: CallbackKeyBytesMin random bytes or more, the same for the consumer
	// and the gateway. With another key, addresses that were made are void.
	Key []byte
}

// Validate checks that addresses can be made.
func (c Callbacks) Validate() error {
	base, err := url.Parse(c.Base)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return fmt.Errorf("enrich.Callbacks: expected a Base such as https://api.example.com, got %q", c.Base)
	}
	if len(c.Key) < CallbackKeyBytesMin {
		return fmt.Errorf("enrich.Callbacks: expected a Key of at least %d bytes, got %d", CallbackKeyBytesMin, len(c.Key))
	}
	return nil
}

// Address returns the address for the callbacks to an instance, "enrich/ID", until the deadline, which
// counts in whole seconds: Base/webhooks/enricher/ID/SECONDS/KEY.
func (c Callbacks) Address(instance string, deadline time.Time) string {
	_, id, _ := strings.Cut(instance, "/")
	until := strconv.FormatInt(deadline.Unix(), 10)
	return strings.TrimSuffix(c.Base, "/") + "/webhooks/" + ProviderName + "/" + url.PathEscape(id) + "/" + until + "/" + c.sign(instance, until)
}

// Verify returns the deadline of an address, given its parts. It reports false if Address has not made it
// with the same key.
func (c Callbacks) Verify(instance, until, key string) (deadline time.Time, ok bool) {
	if len(c.Key) == 0 || !hmac.Equal([]byte(c.sign(instance, until)), []byte(key)) {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(until, 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// sign returns the HMAC of what an address says. Neither part has a line break in it.
func (c Callbacks) sign(instance, until string) string {
	mac := hmac.New(sha256.New, c.Key)
	fmt.Fprintf(mac, "settle callback 1\n%s\n%s\n%s", ProviderName, instance, until)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ErrCallback is returned by ReadCallback when the body is not one of the third party's callbacks.
var ErrCallback = errors.New("not a callback of the third party's")

// DataBytesMax is how much data an instance takes. More is a failure: the third party has to put it
// somewhere, and tell where. For a moment the item, of at most 400 KB, has the data twice, in the context and
// in the answer to the task, and small numbers take more room there than in JSON.
const DataBytesMax = 96 << 10

// unknownFailure stands for the text of a failure that the third party does not explain.
const unknownFailure = "the third party does not say why"

// ReadCallback reads the body of a callback, {"jobId", "success", "data", "error"}, and returns the alias of
// the instance that it is about and the event to send there: SUCCEEDED if success is true and there are
// data, of at most DataBytesMax, else FAILED. Other keys are ignored. Errors wrap ErrCallback.
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
		callback.Error, _ = json.Marshal( // A text always marshals.
			fmt.Sprintf("the third party sent %d bytes of data, of which %d are taken", size, DataBytesMax))
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

// readBody decodes the body of a callback. Its errors are for the third party, and quote nothing of the body.
func readBody(body []byte, into any) error {
	err := statechart.ReadJSON(body, into)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("expected a JSON object, got %d bytes that are no JSON at byte %d: send one such as "+bodyExample, len(body), syntax.Offset)
	}
	if err != nil {
		return fmt.Errorf("%w: send an object such as "+bodyExample, err)
	}
	return nil
}

// bodyExample is the body of a callback.
const bodyExample = `{"jobId": "7", "success": true, "data": {}}`

// textOf returns the text of a failure: the third party's own where it gives one, as a string or in other
// JSON.
func textOf(value json.RawMessage, success bool) string {
	var text string
	switch {
	case isNull(value) && success:
		return "the third party reports success without data"
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
