package client_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/client"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// documented returns the table of permissions in the package's documentation.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	source, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "// # Permissions\n")
	text, _, _ = strings.Cut(text, "// # Errors\n")
	table := map[string][]string{}
	for line := range strings.Lines(text) {
		row, ok := strings.CutPrefix(line, "//\t")
		calls, permissions, both := strings.Cut(row, "  ")
		if !ok || !both {
			continue
		}
		for call := range strings.SplitSeq(calls, ", ") {
			table[call] = strings.Split(strings.TrimSpace(permissions), ", ")
			slices.Sort(table[call])
		}
	}
	return table
}

// TestCallsNeedTheDocumentedPermissions makes each call with its documented permissions, and then without each of them.
func TestCallsNeedTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	list := func(filter dynamostore.Filter) func(*testing.T, *client.Client) error {
		return func(t *testing.T, c *client.Client) error {
			t.Helper()
			count := 0
			for _, err := range c.List(t.Context(), filter) {
				if count++; err != nil {
					return err
				}
			}
			if count != 1 {
				t.Errorf("expected one instance, got %d", count)
			}
			return nil
		}
	}
	send := func(options ...client.Option) func(*testing.T, *client.Client) error {
		return func(t *testing.T, c *client.Client) error {
			t.Helper()
			_, err := c.Send(t.Context(), "order/1", Add{Item: "pen"}, options...)
			return err
		}
	}
	calls := map[string]func(*testing.T, *client.Client) error{
		"Send": send(), "Send with ID": send(client.ID("pen")), "Send with Until": send(client.Until(client.Settled)),
		"SendByAlias": func(t *testing.T, c *client.Client) error {
			t.Helper()
			_, err := c.SendByAlias(t.Context(), "shop/7", Add{Item: "pen"})
			return err
		},
		"Get": func(t *testing.T, c *client.Client) error {
			t.Helper()
			_, err := c.Get(t.Context(), "order/1")
			return err
		},
		"GetByAlias": func(t *testing.T, c *client.Client) error {
			t.Helper()
			_, err := c.GetByAlias(t.Context(), "shop/7")
			return err
		},
		"Wait": func(t *testing.T, c *client.Client) error {
			t.Helper()
			_, err := c.Wait(t.Context(), "order/1", client.Settled)
			return err
		},
		"List": list(dynamostore.Filter{Machine: "order"}), "List without an index": list(dynamostore.Filter{Machine: "order"}),
		"List with Consistent": list(dynamostore.Filter{Consistent: true}),
	}
	table := documented(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(calls)), slices.Sorted(maps.Keys(table))); diff != "" {
		t.Fatalf("expected the documented calls to be the tested ones: %s", diff)
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, name == "List", func(t *testing.T, w *world) {
				w.send(w.client(nil), Place{Item: "book"}, client.Until(client.Settled))
				granted := &role{allowed: table[name]}
				if err := call(t, w.client(granted)); err != nil {
					t.Fatalf("with %v: %v", table[name], err)
				}
				slices.Sort(granted.used)
				if diff := cmp.Diff(table[name], granted.used); diff != "" {
					t.Errorf("expected the call to use exactly the documented permissions: %s", diff)
				}
				for _, missing := range table[name] {
					without := &role{allowed: slices.DeleteFunc(slices.Clone(table[name]), func(p string) bool { return p == missing })}
					if err := call(t, w.client(without)); !errors.Is(err, client.ErrDenied) {
						t.Errorf("without %s: expected ErrDenied, got %v", missing, err)
					}
				}
			})
		})
	}
}
