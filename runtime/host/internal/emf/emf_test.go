package emf_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/host/internal/emf"
	"github.com/settle-run/settle/runtime/host/internal/emf/emftest"
)

func TestALineFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	line, err := emf.Line(time.UnixMilli(1767323045000), "Settle", "Service", "orders", []emf.Metric{
		{Name: "Events", Unit: emf.Count, Value: 3}, {Name: "OutboxAge", Unit: emf.Seconds, Value: 0.25},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Events":3,"OutboxAge":0.25,"Service":"orders","_aws":{"CloudWatchMetrics":[{"Dimensions":[["Service"]],` +
		`"Metrics":[{"Name":"Events","Unit":"Count"},{"Name":"OutboxAge","Unit":"Seconds"}],"Namespace":"Settle"}],"Timestamp":1767323045000}}` + "\n"
	if string(line) != want {
		t.Errorf("got\n%s want\n%s", line, want)
	}
	got, err := emftest.Check(line)
	if err != nil || got["Events"] != 3 || got["OutboxAge"] != 0.25 || len(got) != 2 {
		t.Errorf("got %v and %v", got, err)
	}
	many := make([]emf.Metric, emf.MetricsMax)
	for i := range many {
		many[i] = emf.Metric{Name: fmt.Sprintf("Metric%d", i), Unit: emf.Count, Value: float64(i)}
	}
	if line, err = emf.Line(time.UnixMilli(1), "Settle", "Service", "orders", many); err != nil {
		t.Fatal(err)
	}
	if got, err := emftest.Check(line); err != nil || len(got) != emf.MetricsMax {
		t.Errorf("got %d metrics and %v, want %d", len(got), err, emf.MetricsMax)
	}
	const tooMany = "emf: expected at most 100 metrics per line (MetricsMax), got 101: write several lines"
	if line, err := emf.Line(time.UnixMilli(1), "Settle", "Service", "orders", append(many, emf.Metric{Name: "More", Unit: emf.Count})); line != nil || err == nil || err.Error() != tooMany {
		t.Errorf("got %s and %v, want %s", line, err, tooMany)
	}
	if _, err := emf.Line(time.UnixMilli(1), "Settle", "Service", "orders", []emf.Metric{{Name: "Events", Value: math.NaN()}}); err == nil {
		t.Error("want an error for a value that JSON cannot represent")
	}
}

// TestCheckFindsViolations guards the check itself.
func TestCheckFindsViolations(t *testing.T) {
	t.Parallel()
	const good = `{"_aws":{"Timestamp":1,"CloudWatchMetrics":[{"Namespace":"N","Dimensions":[["S"]],"Metrics":[{"Name":"M","Unit":"Count"}]}]},"S":"s","M":1}`
	if _, err := emftest.Check([]byte(good + "\n")); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"a line feed within":          {`"S":"s"`, "\"S\":\n\"s\""},
		"a metric without a value":    {`,"M":1`, ``},
		"a string as a value":         {`"M":1}`, `"M":"1"}`},
		"a dimension without a value": {`"S":"s",`, ``},
		"an empty dimension":          {`"S":"s"`, `"S":""`},
		"a number as a dimension":     {`"S":"s"`, `"S":1`},
		"an unknown unit":             {`"Count"`, `"count"`},
		"no namespace":                {`"Namespace":"N"`, `"Namespace":""`},
		"no timestamp":                {`"Timestamp":1,`, ``},
		"an unknown key":              {`"Namespace"`, `"namespace"`},
		"a metric twice":              {`{"Name":"M","Unit":"Count"}`, `{"Name":"M","Unit":"Count"},{"Name":"M","Unit":"Count"}`},
		"a set of 31 dimensions":      {`["S"]`, "[" + strings.Join(slices.Repeat([]string{`"S"`}, 31), ",") + "]"},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := emftest.Check([]byte(bad + "\n")); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if !json.Valid([]byte(good)) {
		t.Error("the example is not JSON")
	}
}
