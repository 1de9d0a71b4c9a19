package simulate_test

import (
	"slices"
	"time"
)

// In this file, the ledger records aliases.

// tenure is a period in which an instance has an alias. A zero end means that the instance still has the alias.
type tenure struct {
	of                    string
	createdAt, begin, end time.Time
}

// recordTenure records that an instance claimed an alias. If `of` is empty, it records that the alias was released.
func (l *ledger) recordTenure(alias, of string, createdAt time.Time) {
	if last := len(l.tenures[alias]) - 1; last >= 0 && l.tenures[alias][last].end.IsZero() {
		l.tenures[alias][last].end = time.Now()
	}
	if of != "" {
		l.tenures[alias] = append(l.tenures[alias], tenure{of: of, createdAt: createdAt, begin: time.Now()})
	}
}

// had reports whether a matching instance had an alias at some time in a period. A zero end means no limit.
func (l *ledger) had(alias string, begin, end time.Time, matches func(tenure) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.tenures[alias], func(t tenure) bool {
		return matches(t) && (end.IsZero() || !t.begin.After(end)) && (t.end.IsZero() || !t.end.Before(begin))
	})
}

// recordClaim records a transaction about an alias: a claim if the transaction puts the alias, a release if it updates
// the alias. For a claim, recordClaim checks that no other instance has the alias. It also checks that the claim fails
// if the instance has a newer revision.
func (s *simulation) recordClaim(call takenCall) {
	var transaction struct {
		ClientRequestToken string
		TransactItems      []struct {
			ConditionCheck struct {
				Key struct {
					Instance textAttribute `json:"instance"`
				}
				ExpressionAttributeValues struct {
					Revision numberAttribute `json:":revision"`
				}
			}
			Put struct {
				Item struct {
					Instance  textAttribute `json:"instance"`
					Of        textAttribute `json:"alias_of"`
					CreatedAt textAttribute `json:"created_at"`
				}
			}
			Update struct {
				Key struct {
					Instance textAttribute `json:"instance"`
				}
			}
		}
	}
	s.read(call.request, &transaction)
	l := &s.ledger
	// DynamoDB API Reference, TransactWriteItems: a repeated call with the same ClientRequestToken within ten minutes
	// succeeds and changes nothing.
	if token := transaction.ClientRequestToken; token != "" && l.claims[token] {
		return
	}
	l.claims[transaction.ClientRequestToken] = true
	fenced := map[string]int64{}
	for _, item := range transaction.TransactItems {
		fenced[item.ConditionCheck.Key.Instance.S] = item.ConditionCheck.ExpressionAttributeValues.Revision.int()
	}
	for _, item := range transaction.TransactItems {
		if released := item.Update.Key.Instance.S; released != "" {
			l.recordTenure(released, "", time.Time{})
		}
		alias, of := item.Put.Item.Instance.S, item.Put.Item.Of.S
		if of == "" {
			continue
		}
		if revision := l.stored[of].revision; revision != fenced[of] {
			s.problem("%s claims %s at revision %d of %s, which has revision %d", call.process, alias, fenced[of], of, revision)
		}
		if tenures := l.tenures[alias]; len(tenures) > 0 && tenures[len(tenures)-1].end.IsZero() && tenures[len(tenures)-1].of != of {
			s.problem("%s claimed %s, which %s has", of, alias, tenures[len(tenures)-1].of)
		}
		l.recordTenure(alias, of, item.Put.Item.CreatedAt.time())
	}
}
