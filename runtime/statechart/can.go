package statechart

// Can reports whether the event enables a transition with a target or actions, or would be deferred (snapshot.can in
// XState v5). Can reports false for a stale or forbidden event and for an instance that is not active. If Step would
// fail before it takes a transition, Can returns the same error.
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
