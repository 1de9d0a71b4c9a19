package dynamo_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// page is a page of a Query or Scan.
type page struct {
	items   []plain
	scanned int
	last    plain
}

// pages runs a Query or Scan to its end.
func (p *pair) pages(operation string, request map[string]any) []page {
	var all []page
	for {
		answer := p.call(operation, request, done)
		next := page{scanned: int(answer["ScannedCount"].(float64)), last: decode(answer["LastEvaluatedKey"])}
		for _, i := range asList(answer["Items"]) {
			next.items = append(next.items, decode(i))
		}
		p.want("Count", len(next.items), int(answer["Count"].(float64)))
		if all = append(all, next); next.last == nil {
			return all
		}
		if len(all) > 1+len(p.ref.items) {
			p.Fatal("more pages than items")
		}
		request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
	}
}

// wantScanned checks the number of items that each page read before the filter. Each page but the last must have read
// `limit` items. The last page must have read the rest of `total`, possibly none. If `limit` is 0, one page must have
// read all items.
func (p *pair) wantScanned(pages []page, total, limit int) {
	var want, got []int
	for ; limit > 0 && total >= limit; total -= limit {
		want = append(want, limit)
	}
	want = append(want, total)
	for _, page := range pages {
		got = append(got, page.scanned)
	}
	p.want("ScannedCount by page", want, got)
}

// limited draws a Limit (0 for none) and a filter, and adds both to the request.
func (p *pair) limited(w *writer, request map[string]any) (limit int, holds func(plain) bool) {
	if limit = w.number(0, 4); limit > 0 {
		request["Limit"] = limit
	}
	if rapid.Bool().Draw(p.T, "filter") {
		c := w.condition(1)
		request["FilterExpression"] = c.text
		return limit, c.holds
	}
	return limit, func(plain) bool { return true }
}

// projection draws a projection or none and adds it to the request. It returns a function that applies the projection
// to an item.
func (w *writer) projection(request map[string]any) func(plain) plain {
	var chosen []place
	var text []string
	for _, p := range []place{{"n"}, {"s"}, {"t"}, {"l", 0}, {"l", 2}, {"m", "x"}, {"m", "y"}, {"absent", "x"}} {
		if w.number(0, 3) == 0 {
			chosen, text = append(chosen, p), append(text, w.write(p))
		}
	}
	if len(chosen) == 0 {
		return func(i plain) plain { return i }
	}
	request["ProjectionExpression"] = strings.Join(text, ", ")
	return func(i plain) plain {
		if i == nil {
			return nil
		}
		left := plain{}
		for _, p := range chosen {
			v, name := p.in(i), p[0].(string)
			switch {
			case v == nil:
			case len(p) == 1:
				left[name] = v
			case name == "l":
				left[name] = append(asList(left[name]), v) // the paths are in order
			default:
				if left[name] == nil {
					left[name] = plain{}
				}
				left[name].(plain)[p[1].(string)] = v
			}
		}
		return left
	}
}

func (p *pair) query() {
	w := newWriter(p.T, "id", "k")
	id, at := rapid.SampledFrom([]string{"p", "q"}).Draw(p.T, "id"), func() int { return w.number(0, len(p.sort)-1) }
	text := "id = " + w.value(id)
	low, high := 0, len(p.sort)-1
	begins := ""
	operator := w.pick("", "=", "<", "<=", ">", ">=", "BETWEEN", "begins_with")
	_, isString := p.sort[0].(string)
	switch first := at(); {
	case operator == "begins_with" && isString:
		begins = p.sort[first].(string)
		text += " AND begins_with(k, " + w.value(begins) + ")"
	case operator == "BETWEEN":
		low, high = first, max(first, at())
		text += " AND k BETWEEN " + w.value(p.sort[low]) + " AND " + w.value(p.sort[high])
	case operator != "" && operator != "begins_with":
		text += " AND k " + operator + " " + w.value(p.sort[first])
		switch operator {
		case "=":
			low, high = first, first
		case "<":
			high = first - 1
		case "<=":
			high = first
		case ">":
			low = first + 1
		case ">=":
			low = first
		}
	}
	request := map[string]any{"TableName": "items", "KeyConditionExpression": text}
	limit, holds := p.limited(w, request)
	forward := rapid.Bool().Draw(p.T, "forward")
	request["ScanIndexForward"] = forward
	project := w.projection(request)
	w.addTo(request)

	var selected []plain
	for n := range p.sort {
		if !forward {
			n = len(p.sort) - 1 - n
		}
		i := p.ref.find(plain{"id": id, "k": p.sort[n]})
		if s, _ := p.sort[n].(string); i != nil && low <= n && n <= high && strings.HasPrefix(s, begins) {
			selected = append(selected, i)
		}
	}
	all := p.pages("Query", request)
	p.wantScanned(all, len(selected), limit)
	for _, got := range all {
		var items []plain
		for _, i := range selected[:got.scanned] {
			if holds(i) {
				items = append(items, project(i))
			}
		}
		p.want("page", items, got.items)
		if got.last != nil {
			last := selected[got.scanned-1]
			p.want("LastEvaluatedKey", plain{"id": last["id"], "k": last["k"]}, got.last)
		}
		selected = selected[got.scanned:]
	}
}

// queryIndex queries an index. DynamoDB does not define the order of items with equal index keys.
func (p *pair) queryIndex() {
	byN := rapid.Bool().Draw(p.T, "by-n")
	w := newWriter(p.T, "s")
	if byN {
		w.without = []string{"g", "n"}
	}
	var in func(plain) bool
	request := map[string]any{"TableName": "items"}
	if byN {
		g, least := w.pick("x", "y"), w.number(-3, 2)
		request["IndexName"] = "by-n"
		request["KeyConditionExpression"] = "g = " + w.value(g) + " AND n >= " + w.value(least)
		in = func(i plain) bool {
			n, ok := i["n"].(int)
			return ok && i["g"] == g && n >= least
		}
	} else {
		s := w.text()
		request["IndexName"], request["KeyConditionExpression"] = "by-s", "s = "+w.value(s)
		in = func(i plain) bool { return i["s"] == s }
	}
	limit, holds := p.limited(w, request)
	forward := rapid.Bool().Draw(p.T, "forward")
	request["ScanIndexForward"] = forward
	w.addTo(request)

	total := 0
	var want, got []plain
	for _, i := range p.ref.items {
		if !in(i) {
			continue
		}
		total++
		if byN && p.projected != nil {
			entry := plain{}
			for _, name := range p.projected {
				if i[name] != nil {
					entry[name] = i[name]
				}
			}
			i = entry
		}
		if holds(i) {
			want = append(want, i)
		}
	}
	all := p.pages("Query", request)
	p.wantScanned(all, total, limit)
	for _, page := range all {
		got = append(got, page.items...)
	}
	p.want("items", sorted(want), sorted(got))
	if byN && !slices.IsSortedFunc(got, func(a, b plain) int {
		if !forward {
			a, b = b, a
		}
		return cmp.Compare(a["n"].(int), b["n"].(int))
	}) {
		p.Fatalf("not in the order of n, forward %v: %v", forward, got)
	}
}

func (p *pair) scan() {
	w := newWriter(p.T)
	request := map[string]any{"TableName": "items"}
	limit, holds := p.limited(w, request)
	w.addTo(request)
	var want, got []plain
	for _, i := range p.ref.items {
		if holds(i) {
			want = append(want, i)
		}
	}
	all := p.pages("Scan", request)
	p.wantScanned(all, len(p.ref.items), limit)
	for _, page := range all {
		got = append(got, page.items...)
	}
	p.want("items", sorted(want), sorted(got))
}

// repeat sends an earlier transaction again, with the same token. The second request must have no effect.
func (p *pair) repeat() {
	if len(p.tokens) > 0 {
		p.call("TransactWriteItems", rapid.SampledFrom(p.tokens).Draw(p.T, "request"), done)
	}
}

// transact performs some writes in a transaction, sometimes two of the same item.
func (p *pair) transact() {
	var writes []write
	var requests []any
	code := done
	for range rapid.IntRange(1, 4).Draw(p.T, "writes") {
		w := p.write(true)
		if slices.ContainsFunc(writes, func(o write) bool { return sameKey(o.key, w.key) }) {
			if rapid.IntRange(0, 9).Draw(p.T, "twice") > 0 {
				continue
			}
			code = refused
		}
		writes = append(writes, w)
		requests = append(requests, map[string]any{w.operation: w.request})
	}
	request := map[string]any{"TransactItems": requests}
	if code == refused {
		// A write that does not fit the table cancels the transaction before a repeated item is detected. AWS does
		// not document which of the two comes first.
		if !slices.ContainsFunc(writes, func(w write) bool {
			i, ok := w.request["Item"].(map[string]any)
			return ok && !indexable(plainOf(i))
		}) {
			p.call("TransactWriteItems", request, refused)
		}
		return
	}
	reasons, changes := make([]string, len(writes)), make([]plain, len(writes))
	for i, w := range writes {
		var failed string
		changes[i], failed = w.evaluate(p.ref.find(w.key))
		reasons[i] = map[string]string{done: "None", conditionFailed: "ConditionalCheckFailed", refused: "ValidationError"}[failed]
		if failed != done {
			code = "TransactionCanceledException"
		}
	}
	if rapid.Bool().Draw(p.T, "token") {
		request["ClientRequestToken"] = fmt.Sprint("token-", len(p.tokens))
	}
	answer := p.call("TransactWriteItems", request, code)
	if code == done {
		if request["ClientRequestToken"] != nil {
			p.tokens = append(p.tokens, request)
		}
		for i, w := range writes {
			p.ref.replace(w.key, changes[i])
		}
		return
	}
	var got []string
	for _, reason := range asList(throughJSON(answer["CancellationReasons"])) {
		got = append(got, fmt.Sprint(reason.(map[string]any)["Code"]))
	}
	p.want("reasons", reasons, got)
}

// keys draws some different keys.
func (p *pair) keys() (keys []plain, wired []any) {
	for range rapid.IntRange(1, 5).Draw(p.T, "keys") {
		key := p.key()
		if !slices.ContainsFunc(keys, func(o plain) bool { return sameKey(o, key) }) {
			keys, wired = append(keys, key), append(wired, wire(key))
		}
	}
	return keys, wired
}

func (p *pair) transactGet() {
	keys, wired := p.keys()
	var gets []any
	for _, key := range wired {
		gets = append(gets, map[string]any{"Get": map[string]any{"TableName": "items", "Key": key}})
	}
	answer := p.call("TransactGetItems", map[string]any{"TransactItems": gets}, done)
	for i, response := range asList(answer["Responses"]) {
		p.want("item", p.ref.find(keys[i]), decode(response.(map[string]any)["Item"]))
	}
}

func (p *pair) batchGet() {
	keys, wired := p.keys()
	answer := p.call("BatchGetItem", map[string]any{"RequestItems": map[string]any{"items": map[string]any{"Keys": wired}}}, done)
	var want, got []plain
	for _, key := range keys {
		if i := p.ref.find(key); i != nil {
			want = append(want, i)
		}
	}
	for _, i := range asList(answer["Responses"].(map[string]any)["items"]) {
		got = append(got, decode(i))
	}
	p.want("items", sorted(want), sorted(got))
}

// batch puts and deletes some items. If one does not fit the table, the whole batch is rejected.
func (p *pair) batch() {
	code := done
	var changes []plain
	keys, wired := p.keys()
	var requests []any
	for i, key := range keys {
		if rapid.Bool().Draw(p.T, "delete") {
			changes = append(changes, nil)
			requests = append(requests, map[string]any{"DeleteRequest": map[string]any{"Key": wired[i]}})
			continue
		}
		put := p.item(newWriter(p.T))
		put["id"], put["k"] = key["id"], key["k"]
		if !indexable(put) {
			code = refused
		}
		changes = append(changes, put)
		requests = append(requests, map[string]any{"PutRequest": map[string]any{"Item": wire(put)}})
	}
	p.call("BatchWriteItem", map[string]any{"RequestItems": map[string]any{"items": requests}}, code)
	for i, key := range keys {
		if code == done {
			p.ref.replace(key, changes[i])
		}
	}
}
