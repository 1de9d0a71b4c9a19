package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// What the ledger knows of aliases.

// owner is who has an alias.
type owner struct {
	of, createdAt string
	released      bool
}

// tenure is the time for which an instance has had an alias. A zero end means that it still has it.
type tenure struct {
	of                    string
	createdAt, begin, end time.Time
}

// hand notes that an instance has claimed an alias, or that nobody has it any more if of is empty.
func (l *ledger) hand(alias, of string, createdAt time.Time) {
	if last := len(l.tenures[alias]) - 1; last >= 0 && l.tenures[alias][last].end.IsZero() {
		l.tenures[alias][last].end = time.Now()
	}
	if of != "" {
		l.tenures[alias] = append(l.tenures[alias], tenure{of: of, createdAt: createdAt, begin: time.Now()})
	}
}

// had reports whether an instance that matches has had an alias at some time in a span. A zero end has no limit.
func (l *ledger) had(alias string, begin, end time.Time, matches func(tenure) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.tenures[alias], func(t tenure) bool {
		return matches(t) && (end.IsZero() || !t.begin.After(end)) && (t.end.IsZero() || !t.end.Before(begin))
	})
}

// claim notes a claim of an alias: a transaction that puts the alias. It returns who claims and, if another instance has the
// alias, which.
func (l *ledger) claim(request []byte) (of string, was *owner) {
	var transaction struct {
		ClientRequestToken string
		TransactItems      []struct {
			ConditionCheck *struct {
				Key struct {
					Instance textAttribute `json:"instance"`
				}
				ExpressionAttributeValues struct {
					Revision numberAttribute `json:":revision"`
				}
			}
			Put *struct {
				Item struct {
					Instance  textAttribute `json:"instance"`
					Of        textAttribute `json:"alias_of"`
					CreatedAt textAttribute `json:"created_at"`
				}
			}
		}
	}
	if err := json.Unmarshal(request, &transaction); err != nil {
		panic(err)
	}
	// DynamoDB API Reference, TransactWriteItems: a call that is repeated under its ClientRequestToken within ten minutes succeeds
	// and changes nothing.
	if token := transaction.ClientRequestToken; token != "" && l.claims[token] {
		return "", nil
	}
	l.claims[transaction.ClientRequestToken] = true
	fenced := map[string]int64{}
	for _, item := range transaction.TransactItems {
		if check := item.ConditionCheck; check != nil {
			fenced[check.Key.Instance.S] = check.ExpressionAttributeValues.Revision.int()
		}
	}
	for _, item := range transaction.TransactItems {
		if item.Put == nil || item.Put.Item.Of.S == "" {
			continue
		}
		alias := item.Put.Item
		of = alias.Of.S
		if l.stored[of].revision != fenced[of] {
			panic(fmt.Sprintf("%s has revision %d and claims an alias at %d", of, l.stored[of].revision, fenced[of]))
		}
		if before, taken := l.owners[alias.Instance.S]; taken && !before.released && before.of != of {
			was = &before
		}
		l.owners[alias.Instance.S] = owner{of: of, createdAt: alias.CreatedAt.S}
		createdAt, err := time.Parse(time.RFC3339Nano, alias.CreatedAt.S)
		if err != nil {
			panic(err)
		}
		l.hand(alias.Instance.S, of, createdAt)
	}
	return of, was
}
