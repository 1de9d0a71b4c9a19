package infra_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
)

// TestSecretsAreRotatedThroughTheTemplate rotates the callback key and the webhook secret. Each
// function's environment comes from the template. During each step, one function still has the old
// environment, and the other already has the new one.
func TestSecretsAreRotatedThroughTheTemplate(t *testing.T) {
	t.Parallel()
	at := func(current, pending string) infra.Stack {
		s := stack()
		s.Secrets = map[string]string{"SignupCodeKey": "0123456789abcdef", "EnrichCallbackKey": current, "GitHubWebhookSecret": current}
		if pending != "" {
			s.Pending = map[string]string{"EnrichCallbackKey": pending, "GitHubWebhookSecret": pending}
		}
		return s
	}
	const older, former, next = "the secret before the former one", "the former secret", "the next secret"
	before, during, moved, after := at(former, ""), at(former, next), at(next, next), at(next, "")
	for name, c := range map[string]struct {
		consumer, gateway infra.Stack
		webhook           string
		accepted          bool
	}{
		"before":                                  {before, before, former, true},
		"the consumer is rotated first":           {during, before, former, true},
		"the gateway is rotated first":            {before, during, former, true},
		"GitHub changes":                          {during, during, next, true},
		"the version is moved":                    {during, moved, next, true},
		"the consumer is deployed again":          {moved, during, next, true},
		"the rotation ends, the consumer first":   {after, during, next, true},
		"the rotation ends, the gateway first":    {during, after, next, true},
		"after":                                   {after, after, next, true},
		"signed by an older secret":               {at(older, ""), during, older, false},
		"signed by the former secret, at the end": {before, after, former, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parties := samples.ThirdParties(&host.Process{Env: host.NewEnv(hosttest.Environment(variables(t, c.gateway, "gateway")...))})
			mac := hmac.New(sha256.New, []byte(c.webhook))
			mac.Write([]byte("{}"))
			err := parties.Webhooks["github"].Verify(http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}, []byte("{}"))
			if (err == nil) != c.accepted {
				t.Errorf("a webhook signed by %s: accepted should be %t, got %v", c.webhook, c.accepted, err)
			}
			env := hosttest.Environment(variables(t, c.consumer, "consumer")...)
			key, _ := env(samples.EnrichCallbackKey)
			previous, _ := env(samples.EnrichCallbackKeyPrevious)
			address := enrich.Callbacks{Key: []byte(key), PreviousKey: []byte(previous)}.Address("enrich/1", time.Unix(7, 0))
			if _, ok := parties.Callbacks[enrich.ProviderName].Verify("enrich/1", "7", address[strings.LastIndexByte(address, '/')+1:]); ok != c.accepted {
				t.Errorf("a callback: accepted should be %t, got %t", c.accepted, ok)
			}
		})
	}
}

// variables returns the environment of a function of the template, as NAME=value.
func variables(t *testing.T, s infra.Stack, function string) (variables []string) {
	t.Helper()
	functions, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := s.Resolve(functions[function])
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range deployed.Environment {
		variables = append(variables, name+"="+value)
	}
	return variables
}
