package simulate_test

import "strings"

// In this file, the ledger records the items that TTL deletes.

// recordDeletion records that the item of an instance is deleted, and returns how many effects it still had. The
// caller holds l.mu.
func (l *ledger) recordDeletion(instance string) (owed int) {
	item := l.stored[instance]
	owed, item.owed = item.owed, 0
	l.lost[instance], l.stored[instance] = true, item
	return owed
}

// hasLost reports whether the item of an instance was deleted. If name is the ID of an event, the instance is the
// event's sender.
func (s *simulation) hasLost(name string) bool {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	sender, _, _ := strings.Cut(name, "@")
	return s.ledger.lost[sender]
}

// checkLost checks that an instance whose item was deleted had no effects to perform.
func (s *simulation) checkLost(name string) {
	s.ledger.mu.Lock()
	_, stored := s.ledger.stored[name]
	owed := 0
	if stored {
		owed = s.ledger.recordDeletion(name)
	}
	s.ledger.mu.Unlock()
	if owed > 0 {
		s.problem("the item of %s was deleted with %d effects to perform", name, owed)
	}
}
