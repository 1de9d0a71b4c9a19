package gateway

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
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

// mediaType returns the body's media type if it is one of the supported ones, and the first supported one if there is
// no Content-Type. Media types that end in +json count as application/json.
func mediaType(header http.Header, supported ...string) (string, error) {
	if encoding := header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", fmt.Errorf("%w: expected a body without Content-Encoding, got %q", errMediaType, encoding)
	}
	given := header.Get("Content-Type")
	if given == "" {
		return supported[0], nil
	}
	name, _, err := mime.ParseMediaType(given)
	if err == nil && strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json") {
		name = "application/json"
	}
	if err != nil || !slices.Contains(supported, name) {
		return "", fmt.Errorf("%w: expected the Content-Type %s, got %q", errMediaType, strings.Join(supported, " or "), given)
	}
	return name, nil
}
