package simulate_test

import "encoding/json"

// What the ledger knows of aliases.

// owner is who has an alias.
type owner struct {
	of, createdAt string
	released      bool
}

// claim notes a stored claim of an alias. It returns who claims and, if another instance has the alias, which.
func (l *ledger) claim(request []byte) (of string, was *owner) {
	var put struct {
		Item struct {
			Instance  struct{ S string } `json:"instance"`
			Of        struct{ S string } `json:"alias_of"`
			CreatedAt struct{ S string } `json:"created_at"`
		}
	}
	if err := json.Unmarshal(request, &put); err != nil {
		panic(err)
	}
	of = put.Item.Of.S
	if of == "" {
		return "", nil
	}
	if before, taken := l.owners[put.Item.Instance.S]; taken && !before.released && before.of != of {
		was = &before
	}
	l.owners[put.Item.Instance.S] = owner{of: of, createdAt: put.Item.CreatedAt.S}
	return of, was
}

// release notes that an alias was released.
func (l *ledger) release(request []byte) {
	var update struct {
		Key struct {
			Instance struct{ S string } `json:"instance"`
		}
	}
	if err := json.Unmarshal(request, &update); err != nil {
		panic(err)
	}
	if of, taken := l.owners[update.Key.Instance.S]; taken {
		of.released = true
		l.owners[update.Key.Instance.S] = of
	}
}
