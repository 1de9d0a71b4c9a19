package upload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// delivery is an event about one upload. Its content is its ETag.
type delivery struct{ kind, content, sequencer string }

func (d delivery) String() string { return d.kind + " " + d.content + "@" + d.sequencer }

// orders calls `each` for every distinct order of the deliveries.
func orders(deliveries []delivery, each func([]delivery)) {
	left := map[delivery]int{}
	var kinds []delivery
	for _, d := range deliveries {
		if left[d] == 0 {
			kinds = append(kinds, d)
		}
		left[d]++
	}
	order := make([]delivery, 0, len(deliveries))
	var extend func()
	extend = func() {
		if len(order) == len(deliveries) {
			each(order)
			return
		}
		for _, d := range kinds {
			if left[d] == 0 {
				continue
			}
			left[d]--
			order = append(order, d)
			extend()
			order = order[:len(order)-1]
			left[d]++
		}
	}
	extend()
}

// last returns the content of the newest upload of a kind, or "" if there is no upload.
func last(deliveries []delivery, kind string) string {
	var newest delivery
	for _, d := range deliveries {
		if d.kind == kind && d.sequencer > newest.sequencer {
			newest = d
		}
	}
	return newest.content
}

// check returns an error if a month's processor got wrong requests. Every sales file must be processed with the newest
// warehouse dataset, and only once with each dataset, unless the file is bad. In the end, the newest files must be
// processed.
func check(requests []string, warehouse, sales string) error {
	stock, done := "", map[string]bool{}
	var lastSales, lastWarehouse string
	for i, request := range requests {
		if content, ok := strings.CutPrefix(request, "warehouse "); ok {
			if content == lastWarehouse && !isBad(content) {
				return fmt.Errorf("the warehouse file %s was processed twice in a row", content)
			}
			stock, lastWarehouse = "stock "+content, content
			if isBad(content) {
				stock = ""
			}
			clear(done)
			continue
		}
		if stock == "" {
			return fmt.Errorf("request %d, %s: came before the warehouse file was processed", i, request)
		}
		if !strings.HasSuffix(request, " with "+stock) {
			return fmt.Errorf("request %d, %s: the newest dataset is %s", i, request, stock)
		}
		if done[request] && request != "sales bad with "+stock {
			return fmt.Errorf("request %d, %s: came a second time", i, request)
		}
		done[request] = true
		lastSales = request
	}
	if want := "sales " + sales + " with stock " + warehouse; !isBad(warehouse) && lastSales != want {
		return fmt.Errorf("the last request for sales is %q, want %q", lastSales, want)
	}
	if lastWarehouse != warehouse {
		return fmt.Errorf("the last request for warehouse is %q, want %q", lastWarehouse, warehouse)
	}
	return nil
}

func TestInEveryOrderTheSalesFileIsProcessedOnceAfterTheWarehouseFile(t *testing.T) {
	t.Parallel()
	w1, w2, w3 := delivery{"warehouse", "w1", "10"}, delivery{"warehouse", "w2", "20"}, delivery{"warehouse", "w3", "30"}
	s1, s2 := delivery{"sales", "s1", "10"}, delivery{"sales", "s2", "20"}
	same, back := delivery{"warehouse", "w1", "20"}, delivery{"warehouse", "w1", "30"}
	bad, still, worse := delivery{"warehouse", "bad", "15"}, delivery{"warehouse", "bad", "16"}, delivery{"warehouse", "bad", "40"}
	badSales, stillBad := delivery{"sales", "bad", "15"}, delivery{"sales", "bad", "16"}
	for name, c := range map[string]struct {
		deliveries []delivery
		orders     int
		// requests is the number of requests in every order, or 0 if the number depends on the order.
		requests int
	}{
		"each file once":                    {[]delivery{w1, s1}, 2, 2},
		"doubled":                           {[]delivery{w1, w1, s1, s1}, 6, 2},
		"three times":                       {[]delivery{w1, w1, w1, s1, s1, s1}, 20, 2},
		"the same content uploaded again":   {[]delivery{w1, same, s1, s1}, 12, 2},
		"a new sales file":                  {[]delivery{w1, w1, s1, s2}, 12, 0},
		"a new warehouse file":              {[]delivery{w1, w2, s1, s1}, 12, 0},
		"both new":                          {[]delivery{w1, w2, s1, s2}, 24, 0},
		"both new, doubled":                 {[]delivery{w1, w2, w2, s1, s2, s2}, 180, 0},
		"both new, one twice":               {[]delivery{w1, w2, w3, s1, s2}, 120, 0},
		"new, then the old one again":       {[]delivery{w1, w2, back, s1, s1}, 60, 0},
		"a bad warehouse file is corrected": {[]delivery{w1, bad, w2, s1, s2}, 120, 0},
		"a bad file is uploaded again":      {[]delivery{bad, still, w2, s1, s1}, 60, 0},
		"a bad sales file is corrected":     {[]delivery{w1, w2, badSales, stillBad, s2}, 120, 0},
		"a sales file that ends bad":        {[]delivery{w1, w2, s1, badSales, stillBad}, 120, 0},
		"a warehouse file that ends bad":    {[]delivery{w1, w2, worse, s1, s1}, 60, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := 0
			orders(c.deliveries, func(order []delivery) {
				count++
				fake := newProcessor()
				p := statecharttest.Play(t, upload.New(fake, upload.Config{}), statecharttest.Config{})
				for _, d := range order {
					p.Send(d.kind+"_uploaded", file(d.kind, d.content, d.sequencer))
				}
				warehouse, sales := last(order, "warehouse"), last(order, "sales")
				if err := check(fake.requests, warehouse, sales); err != nil {
					t.Errorf("%v: %v; the requests: %q", order, err, fake.requests)
				}
				if c.requests > 0 && len(fake.requests) != c.requests {
					t.Errorf("%v: expected %d requests, got %q", order, c.requests, fake.requests)
				}
				want := "open.warehouse.processed, open.sales.processed"
				switch {
				case isBad(warehouse):
					want = "open.warehouse.failed, open.sales.held"
				case isBad(sales):
					want = "open.warehouse.processed, open.sales.failed"
				}
				if got := p.State(); got != want {
					t.Errorf("%v: expected to end in %s, got %s", order, want, got)
				}
			})
			if count != c.orders {
				t.Errorf("expected %d orders, got %d", c.orders, count)
			}
		})
	}
}
