package dynamo_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

// reference is a simple, slow implementation of the table "items": each call searches a slice of all items. It defines
// the correct behaviour of the model.
type reference struct{ items []plain }

func sameKey(a, b plain) bool { return a["id"] == b["id"] && a["k"] == b["k"] }

func (r *reference) find(key plain) plain {
	for _, i := range r.items {
		if sameKey(i, key) {
			return i
		}
	}
	return nil
}

func (r *reference) replace(key, changed plain) {
	r.items = slices.DeleteFunc(r.items, func(i plain) bool { return sameKey(i, key) })
	if changed != nil {
		r.items = append(r.items, changed)
	}
}

// The codes of the reference's results.
const (
	done            = ""
	conditionFailed = "ConditionalCheckFailedException"
	refused         = "ValidationException"
)

// indexable reports whether the indexes accept the item: an index key that exists must have the right type.
func indexable(i plain) bool {
	for name, typ := range map[string]reflect.Type{"g": reflect.TypeFor[string](), "n": reflect.TypeFor[int](), "s": reflect.TypeFor[string]()} {
		if i[name] != nil && reflect.TypeOf(i[name]) != typ {
			return false
		}
	}
	return true
}

// write is a write of one item: its request parameters, and its effect.
type write struct {
	operation string // Put, Update, Delete, ConditionCheck
	key       plain
	request   map[string]any
	// evaluate returns the item after the write.
	evaluate func(old plain) (changed plain, code string)
}

// pair runs a model and the reference side by side. Every operation applies to both, and their answers must match.
type pair struct {
	*rapid.T
	model *dynamo.Model
	ref   *reference
	// sort holds the possible values of sort keys, in order.
	sort []any
	// projected lists the attributes of the index by-n. It is nil if the index has all attributes.
	projected []string
	// tokens holds the transactions that were made with a ClientRequestToken.
	tokens []map[string]any
}

// TestModel_behaves_like_the_reference compares a model with the reference, on random sequences of operations. The flag
// -rapid.checks sets the number of sequences.
func TestModel_behaves_like_the_reference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		do := map[string]func(){"write": p.single, "get": p.get, "query": p.query, "index": p.queryIndex, "scan": p.scan,
			"transact": p.transact, "repeat": p.repeat, "transactGet": p.transactGet, "batch": p.batch, "batchGet": p.batchGet}
		often := []string{"write", "write", "write", "write", "get", "query", "index", "scan", "transact", "transact", "repeat", "transactGet", "batch", "batchGet"}
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			do[rapid.SampledFrom(often).Draw(t, "do")]()
		}
		p.scan()
		p.queryIndex()
	})
}

func newPair(t *rapid.T) *pair {
	p := &pair{T: t, model: dynamo.New(), ref: &reference{}, sort: []any{-10, -1, 0, 2, 10}}
	sortType, projection := "N", map[string]any{"ProjectionType": "ALL"}
	if rapid.Bool().Draw(t, "sort key is a string") {
		p.sort, sortType = []any{"a", "ab", "abc", "b", "ba"}, "S"
	}
	switch rapid.IntRange(0, 2).Draw(t, "projection") {
	case 0:
		projection = map[string]any{"ProjectionType": "KEYS_ONLY"}
		p.projected = []string{"id", "k", "g", "n"}
	case 1:
		projection = map[string]any{"ProjectionType": "INCLUDE", "NonKeyAttributes": []string{"l"}}
		p.projected = []string{"id", "k", "g", "n", "l"}
	}
	keys := func(names ...string) (schema []map[string]string) {
		for i, name := range names {
			schema = append(schema, map[string]string{"AttributeName": name, "KeyType": []string{"HASH", "RANGE"}[i]})
		}
		return schema
	}
	var defined []map[string]string
	for _, d := range [][2]string{{"id", "S"}, {"k", sortType}, {"g", "S"}, {"n", "N"}, {"s", "S"}} {
		defined = append(defined, map[string]string{"AttributeName": d[0], "AttributeType": d[1]})
	}
	p.call("CreateTable", map[string]any{
		"TableName": "items", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": defined, "KeySchema": keys("id", "k"),
		"GlobalSecondaryIndexes": []any{
			map[string]any{"IndexName": "by-n", "KeySchema": keys("g", "n"), "Projection": projection},
			map[string]any{"IndexName": "by-s", "KeySchema": keys("s"), "Projection": map[string]any{"ProjectionType": "ALL"}},
		},
	}, "")
	return p
}

// call performs an operation, which must return the given code.
func (p *pair) call(operation string, request map[string]any, code string) map[string]any {
	body, err := json.Marshal(request)
	if err != nil {
		p.Fatal(err)
	}
	p.Logf("%s %s", operation, body)
	answer, failed := p.model.Call(time.Unix(1_800_000_000, 0), operation, body)
	got := ""
	if failed != nil {
		got = failed.Code
	}
	if got != code {
		p.Fatalf("%s %s: got %v, want %q", operation, body, failed, code)
	}
	if failed != nil {
		return failed.Members
	}
	var decoded map[string]any
	if err := json.Unmarshal(answer, &decoded); err != nil {
		p.Fatal(err)
	}
	return decoded
}

func (p *pair) want(what string, want, got any) {
	if diff := gocmp.Diff(want, got); diff != "" {
		p.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (p *pair) key() plain {
	return plain{"id": rapid.SampledFrom([]string{"p", "q"}).Draw(p.T, "id"), "k": p.sort[min(rapid.IntRange(0, 7).Draw(p.T, "k"), len(p.sort)-1)]}
}

// item draws an item with some attributes. A few items do not fit the indexes.
func (p *pair) item(w *writer) plain {
	i := p.key()
	for _, name := range []string{"g", "n", "s", "l", "m", "t"} {
		if w.number(0, 2) == 0 {
			continue
		}
		switch name {
		case "g":
			i[name] = w.pick("x", "x", "y")
			if w.number(0, 20) == 20 {
				i[name] = 7
			}
		case "n":
			i[name] = w.number(-2, 3)
		case "s":
			i[name] = w.text()
		case "l":
			i[name] = w.list()
		case "m":
			i[name] = plain{"x": w.number(-2, 3), "y": w.text()}
		case "t":
			i[name] = w.set()
		}
	}
	return i
}

// write draws a write of any kind. The write can be a condition check only if the argument `checks` is true.
func (p *pair) write(checks bool) write {
	w := newWriter(p.T, "id", "k")
	kinds := []string{"Put", "Put", "Update", "Update", "Update", "Update", "Delete"}
	if checks {
		kinds = append(kinds, "ConditionCheck")
	}
	made := write{operation: rapid.SampledFrom(kinds).Draw(p.T, "kind"), key: p.key(), request: map[string]any{"TableName": "items"}}
	var effect func(old plain) (plain, string)
	switch made.operation {
	case "Put":
		i := p.item(w)
		made.key = plain{"id": i["id"], "k": i["k"]}
		made.request["Item"] = wire(i)
		effect = func(plain) (plain, string) { return i, done }
	case "Update":
		c := w.change()
		made.request["UpdateExpression"] = c.text
		effect = func(old plain) (plain, string) {
			if old == nil {
				old = made.key
			}
			changed, ok := c.apply(old)
			if !ok || !indexable(changed) {
				return nil, refused
			}
			return changed, done
		}
	case "Delete":
		effect = func(plain) (plain, string) { return nil, done }
	default:
		effect = func(old plain) (plain, string) { return old, done }
	}
	if made.operation != "Put" {
		made.request["Key"] = wire(made.key)
	}
	holds := func(plain) bool { return true }
	if made.operation == "ConditionCheck" || rapid.IntRange(0, 2).Draw(p.T, "conditional") == 0 {
		c := w.condition(2)
		made.request["ConditionExpression"], holds = c.text, c.holds
		made.request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
	made.evaluate = func(old plain) (plain, string) {
		if i, ok := made.request["Item"].(map[string]any); ok && !indexable(plainOf(i)) {
			return nil, refused
		}
		if !holds(old) {
			return nil, conditionFailed
		}
		return effect(old)
	}
	w.addTo(made.request)
	return made
}

var placeholderPattern = regexp.MustCompile(`[:#]\w+`)

// addTo adds the placeholders of the expressions to a request.
func (w *writer) addTo(request map[string]any) {
	names, values := map[string]string{}, plain{}
	for parameter, text := range request {
		if !strings.HasSuffix(parameter, "Expression") {
			continue
		}
		for _, used := range placeholderPattern.FindAllString(text.(string), -1) {
			if used[0] == '#' {
				names[used] = w.names[used]
			} else {
				values[used] = w.values[used]
			}
		}
	}
	if len(names) > 0 {
		request["ExpressionAttributeNames"] = names
	}
	if len(values) > 0 {
		request["ExpressionAttributeValues"] = wire(values)
	}
}

// single performs a write outside a transaction.
func (p *pair) single() {
	w := p.write(false)
	old := p.ref.find(w.key)
	changed, code := w.evaluate(old)
	returned, want := "ALL_OLD", old
	if w.operation == "Update" && rapid.Bool().Draw(p.T, "ALL_NEW") {
		returned, want = "ALL_NEW", changed
	}
	w.request["ReturnValues"] = returned
	answer := p.call(w.operation+"Item", w.request, code)
	switch code {
	case done:
		p.want("returned", want, decode(answer["Attributes"]))
		p.ref.replace(w.key, changed)
	case conditionFailed:
		p.want("item of the error", old, decode(throughJSON(answer["Item"])))
	}
}

func (p *pair) get() {
	key := p.key()
	request := map[string]any{"TableName": "items", "Key": wire(key)}
	w := newWriter(p.T)
	project := w.projection(request)
	w.addTo(request)
	answer := p.call("GetItem", request, done)
	p.want("item", project(p.ref.find(key)), decode(answer["Item"]))
}
