package awslocal

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// callerIdentity is the answer of GetCallerIdentity, the only operation of STS that awslocal supports (AWS STS API
// Reference).
type callerIdentity struct {
	XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	ARN       string   `xml:"GetCallerIdentityResult>Arn"`
	UserID    string   `xml:"GetCallerIdentityResult>UserId"`
	Account   string   `xml:"GetCallerIdentityResult>Account"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

// serveIdentity serves GetCallerIdentity and reports whether the form asks for that operation. awslocal has no users,
// so the answer names an IAM user after the access key ID.
func serveIdentity(w http.ResponseWriter, r *http.Request, id string, form []byte) bool {
	values, err := url.ParseQuery(string(form))
	if err != nil || values.Get("Action") != "GetCallerIdentity" {
		return false
	}
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	user, _, _ := strings.Cut(credential, "/")
	w.Header().Set("Content-Type", "text/xml")
	answer := callerIdentity{ARN: fmt.Sprintf("arn:aws:iam::%s:user/%s", Account, user), UserID: user, Account: Account, RequestID: id}
	_ = xml.NewEncoder(w).Encode(answer) // The client may have disconnected.
	return true
}
