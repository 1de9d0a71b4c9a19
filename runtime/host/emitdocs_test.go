package host_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// TestPublishEventsPage checks docs/publish-events.md: emit_test.go contains the page's Go block, the page's pattern
// matches one of two events, and the first published event equals the page's event.
func TestPublishEventsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/publish-events.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("emit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```(go|json)\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		blocks[block[1]] = append(blocks[block[1]], block[2])
	}
	if len(blocks["go"]) != 1 || len(blocks["json"]) != 2 {
		t.Fatalf("expected a Go block, a pattern and an event, got %v", blocks)
	}
	if !strings.Contains(string(source), "\t"+blocks["go"][0]+"\n") {
		t.Errorf("expected the action of the page in emit_test.go:\n%s", blocks["go"][0])
	}
	synctest.Test(t, func(t *testing.T) {
		var published []json.RawMessage
		e := newEmitting(t, awslocal.Config{Published: func(event json.RawMessage) { published = append(published, event) }}, "default")
		_, err := eventbridge.NewFromConfig(e.config).PutRule(t.Context(), &eventbridge.PutRuleInput{Name: aws.String("orders"), EventPattern: &blocks["json"][0]})
		e.must(err)
		e.send(time.Minute, `{"type": "ADD", "items": 2}`, `{"type": "ADD", "items": -1}`)
		if got := e.published(); len(got) != 1 || len(published) != 2 {
			t.Fatalf("got the events %q of %d, want one that matches", got, len(published))
		}
		var want, got any
		e.must(json.Unmarshal([]byte(blocks["json"][1]), &want))
		e.must(json.Unmarshal(published[0], &got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the event of the page (-page +published):\n%s", diff)
		}
	})
}
