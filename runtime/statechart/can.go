package statechart

// Can reports whether stepping the event would do what the chart says of it (can of a snapshot in
// XState v5): whether it enables a transition that has a target or actions, or would be
// deferred. It is false for an event that nothing takes or that a transition forbids, for a stale
// one, and for an instance that is not active. The errors are those with which Step would fail
// before it takes a transition. Nothing happens to the snapshot.
func (c *Chart[C]) Can(snapshot Snapshot[C], event Event) (can bool, err error) {
	if snapshot.chart != &c.chart {
		return false, c.anothers()
	}
	if snapshot.Status != Active {
		return false, nil
	}
	s := c.Stepper()
	s.adopt(&snapshot, &event)
	s.begin(&snapshot)
	defer s.recovered(&snapshot, &err)
	return s.x.can()
}
