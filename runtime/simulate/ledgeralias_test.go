package simulate_test

import "encoding/json"

// What the ledger knows of aliases.

// owner is who has an alias.
type owner struct {
	of, createdAt string
	released      bool
}

// claim notes a claim of an alias: a transaction that puts the alias. It returns who claims and, if another instance has the
// alias, which.
func (l *ledger) claim(request []byte) (of string, was *owner) {
	var transaction struct {
		ClientRequestToken string
		TransactItems      []struct {
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
	for _, item := range transaction.TransactItems {
		if item.Put == nil || item.Put.Item.Of.S == "" {
			continue
		}
		alias := item.Put.Item
		of = alias.Of.S
		if before, taken := l.owners[alias.Instance.S]; taken && !before.released && before.of != of {
			was = &before
		}
		l.owners[alias.Instance.S] = owner{of: of, createdAt: alias.CreatedAt.S}
	}
	return of, was
}
