package gateway

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// readBody reads the whole body. It returns errTooLarge if the body exceeds the limit.
func readBody(r *http.Request, bytesMax int) ([]byte, error) {
	if r.ContentLength > int64(bytesMax) {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes, got %d", errTooLarge, bytesMax, r.ContentLength)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(bytesMax)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	if len(body) > bytesMax {
		return nil, fmt.Errorf("%w: expected a body of at most %d bytes", errTooLarge, bytesMax)
	}
	return body, nil
}

// checkJSON checks that the body is JSON that is not compressed. No Content-Type, and media types that end in +json, count
// as application/json.
func checkJSON(header http.Header) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("%w: expected a body without Content-Encoding, got %q", errMediaType, encoding)
	}
	given := header.Get("Content-Type")
	if given == "" {
		return nil
	}
	name, _, err := mime.ParseMediaType(given)
	isJSON := name == "application/json" || strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json")
	if err != nil || !isJSON {
		return fmt.Errorf("%w: expected the Content-Type application/json, got %q", errMediaType, given)
	}
	return nil
}
