package awslocal

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/sqsquery"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// CheckHost returns an error unless host, the Host of a request, is localhost, a loopback address or one of the allowed
// names. The port does not matter. The check stops DNS rebinding: a web page points its own host name at a loopback
// address. The browser then treats a server on this machine as the page's origin, but it still sends the page's name as
// the host.
func CheckHost(host string, allowed []string) error {
	name := (&url.URL{Host: host}).Hostname()
	if isLoopback(name) || slices.ContainsFunc(allowed, func(other string) bool { return strings.EqualFold(name, other) }) {
		return nil
	}
	return fmt.Errorf("expected localhost or a loopback address as the host of the request, got %q: if you trust this name, "+
		"run settle dev with --allow-host %s, or add it to AllowHosts of awslocal.Config", host, name)
}

// isLoopback reports whether the host, without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// serveAllowed serves requests for the allowed hosts, and answers all others with an AWS error.
func (c *Cloud) serveAllowed(w http.ResponseWriter, r *http.Request) {
	refused := CheckHost(r.Host, c.allowHosts)
	if refused == nil {
		c.ServeHTTP(w, r)
		return
	}
	err := &wire.Error{Code: "AccessDeniedException", Message: refused.Error(), Status: http.StatusForbidden}
	if r.Header.Get("X-Amz-Target") == "" && isForm(r) {
		writeXML(w, err, sqsquery.Error(err, ""))
		return
	}
	writeJSONError(w, sqsNamespace, err)
}
