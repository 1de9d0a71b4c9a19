package console_test

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// emptyStore stands for dynamostore.New(dynamodb.NewFromConfig(settings), "settle").
type emptyStore struct{}

func (emptyStore) Load(_ context.Context, id instances.ID) (instances.Record, error) {
	return instances.Record{Instance: id}, nil
}

func (emptyStore) Count(context.Context, string) (dynamostore.Counts, error) {
	return dynamostore.Counts{}, nil
}

func (emptyStore) ListPage(context.Context, dynamostore.Filter, int, string) (dynamostore.Page, error) {
	return dynamostore.Page{}, nil
}

// login lets only the operator in. Use the login of your other internal pages.
func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "operator" || subtle.ConstantTimeCompare([]byte(password), []byte("a long password")) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="settle"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func Example() {
	machines, err := durable.NewMachines(order())
	if err != nil {
		panic(err)
	}
	pages, err := console.New(console.Config{
		Machines: machines, Store: emptyStore{}, Title: "settle · production", Prefix: "/ops/settle", AllowHosts: []string{"ops.example.com"},
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/settle/", login(pages))

	for _, password := range []string{"", "a long password"} {
		request := httptest.NewRequest(http.MethodGet, "https://ops.example.com/ops/settle/machines/order", nil)
		request.SetBasicAuth("operator", password)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code)
	}
	// Output:
	// 401
	// 200
}
