package statechart

// Can reports whether Step would have an effect for the event (snapshot.can in XState v5). This is true if the event
// enables a transition with a target or actions, or would be deferred. It is false for an event that no transition
// matches or that a transition forbids, for a stale event, and for an instance that is not active. The errors are those
// that Step returns before it takes a transition. Can does not change the snapshot.
func (c *Chart[C]) Can(snapshot Snapshot[C], event Event) (can bool, err error) {
	if snapshot.chart != &c.chart {
		return false, c.otherChart()
	}
	if snapshot.Status != Active {
		return false, nil
	}
	s := c.Stepper()
	s.adopt(&snapshot, &event)
	s.reset(&snapshot)
	defer s.recovered(&snapshot, &err)
	return s.x.can()
}
