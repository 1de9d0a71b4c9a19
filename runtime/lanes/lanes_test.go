package lanes_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/lanes"
)

func parse(t *testing.T, text string, known ...string) lanes.Rules {
	t.Helper()
	rules, err := lanes.ParseRules(text, known)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestTheLongestPrefixDecides(t *testing.T) {
	t.Parallel()
	rules := parse(t, "signup=bulk, job/acme.*=vip, job/a*=bulk", "bulk", "vip")
	for name, want := range map[string]string{
		"signup/1": "bulk", "job/acme.1": "vip", "job/a1": "bulk", "job/b1": "main", "other/acme.1": "main",
	} {
		if got := rules.Lane(idOf(t, name)); got != want {
			t.Errorf("%s: got the lane %s, want %s", name, got, want)
		}
	}
	if got := (lanes.Rules{}).Lane(idOf(t, "job/1")); got != instances.MainLane {
		t.Errorf("without rules: got %s", got)
	}
}

// TestATenantHasItsShareOfTheLanes checks the weights, that a tenant stays in its lanes, and that a new lane moves no
// tenant between the others.
func TestATenantHasItsShareOfTheLanes(t *testing.T) {
	t.Parallel()
	const tenants = 3000
	before, after, two := parse(t, "job=a:2|b", "a", "b"), parse(t, "job=a:2|b|c", "a", "b", "c"), parse(t, "job=a|b|c|d/2", "a", "b", "c", "d")
	counts := map[string]int{}
	for n := range tenants {
		tenant := fmt.Sprintf("job/tenant-%d.", n)
		lane := before.Lane(idOf(t, tenant+"1"))
		counts[lane]++
		if other := before.Lane(idOf(t, tenant+"2")); other != lane {
			t.Fatalf("%s has the lanes %s and %s", tenant, lane, other)
		}
		if now := after.Lane(idOf(t, tenant+"1")); now != lane && now != "c" {
			t.Fatalf("the new lane c moves %s from %s to %s", tenant, lane, now)
		}
		spread := map[string]bool{}
		for i := range 64 {
			spread[two.Lane(idOf(t, fmt.Sprint(tenant, i)))] = true
		}
		if len(spread) != 2 {
			t.Fatalf("%s has the lanes %v, want 2", tenant, spread)
		}
	}
	// Six standard deviations of the binomial distribution.
	if got, want := float64(counts["a"]), tenants*2/3.0; math.Abs(got-want) > 6*math.Sqrt(tenants*2/9.0) {
		t.Errorf("the lane a of weight 2 has %v of %d tenants, want about %v", got, tenants, want)
	}
}

func TestInvalidRulesAreRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"signup":           "expected a rule such as",
		"=a":               "expected a rule such as",
		"job/acme=a":       "expected a rule such as",
		"job/*=a":          "expected a rule such as",
		"job=c":            "expected one of the lanes main, a, b",
		"job=a:0":          "weight",
		"job=a:x":          "weight",
		"job=a|a":          "twice",
		"job=a|b/3":        "number of lanes of a tenant",
		"job=a,job=b":      "second one",
		"job/x*=a,job/x*=": "expected one of the lanes",
	} {
		if _, err := lanes.ParseRules(text, []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}

func idOf(t *testing.T, name string) instances.ID {
	t.Helper()
	id, err := instances.ParseID(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
