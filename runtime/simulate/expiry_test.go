package simulate_test

import "strings"

// What the ledger knows of items that TTL deletes.

// lose notes that the item of an instance is gone, and returns how many effects it had to perform; l.mu is held.
func (l *ledger) lose(instance string) (owed int) {
	item := l.stored[instance]
	owed, item.owed = item.owed, 0
	l.lost[instance], l.stored[instance] = true, item
	return owed
}

// hasLost reports whether the item of an instance is gone, or of the instance that has sent the event with the ID.
func (s *simulation) hasLost(name string) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	sender, _, _ := strings.Cut(name, "@")
	return s.ledger.lost[sender]
}

// checkLost checks that an instance without an item has not left effects behind.
func (s *simulation) checkLost(name string) {
	s.ledger.mu.Lock()
	_, stored := s.ledger.stored[name]
	owed := 0
	if stored {
		owed = s.ledger.lose(name)
	}
	s.ledger.mu.Unlock()
	if owed > 0 {
		s.problem("the item of %s was deleted, and had %d effects to perform", name, owed)
	}
}
