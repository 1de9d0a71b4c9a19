package explore_test

import "slices"

// The files of the defects.
const (
	portsFile      = "explore/ports_test.go"
	loopFile       = "loop.go"
	turnFile       = "turn.go"
	stepFile       = "step.go"
	effectsFile    = "effects.go"
	dispatchFile   = "dispatch.go"
	failureFile    = "failure.go"
	parkingFile    = "parking.go"
	rearmFile      = "rearm.go"
	duplicatesFile = "duplicates.go"
	servicesFile   = "services.go"
	aliasFile      = "alias.go"
	tokenFile      = "token.go"
	operateFile    = "operate.go"
	lanesFile      = "lanes.go"
	outboxFile     = "outbox.go"
	portsGoFile    = "ports.go"
	operationsFile = "../operations/operations.go"
)

// mutants are all defects.
var mutants = slices.Concat(simulated, fixed, ofOperators, ofLanes, ofOutboxes)

// simulated are defects that the simulation finds too: see runtime/simulate/mutants_test.go.
var simulated = []mutant{
	{name: "unconditional write", scenario: "plain", finds: "taken back", file: portsFile,
		old: `was.revision != record.Revision-1`, new: `was.revision < 0`},
	{name: "alias claimed twice", scenario: "alias", finds: "alias of another", file: portsFile,
		old: `case !exists || has.released || mine`, new: `case !exists || !mine || mine`},
	{name: "no watermark", scenario: "plain", finds: "applied twice", file: stepFile,
		old: `	return d.SequenceNumber != "" && instances.CompareSequence(d.SequenceNumber, r.Watermark[d.Queue]) <= 0`, new: `	return false`},
	{name: "one watermark for all queues", scenario: "queues", finds: "event lost", file: stepFile,
		old: `	return d.SequenceNumber != "" && instances.CompareSequence(d.SequenceNumber, r.Watermark[d.Queue]) <= 0`,
		new: `	for _, number := range r.Watermark {
		if instances.CompareSequence(d.SequenceNumber, number) <= 0 {
			return true
		}
	}
	return false`},
	{name: "unsettled instances take events", scenario: "service: then", finds: "applied while unsettled", file: turnFile,
		old: `	if t.draft.Instance == nil || t.draft.Instance.Settled() {
		return false, nil
	}`, new: `	if t.draft.Instance == nil || t.exists() {
		return false, nil
	}`},
	{name: "outbox overwritten instead of drained", scenario: "send", finds: "effect lost", file: turnFile,
		old: `	if err := t.drain(ctx); err != nil {
		return 0, err
	}
`, new: `	t.draft.Record.Outbox, t.stored.Record.Outbox = nil, nil
`},
	{name: "acknowledge before dispatch", scenario: "send", finds: "owed for ever", file: turnFile,
		old: `		if err := t.dispatch(ctx, false); err != nil {
			return done, err
		}`, new: `		if t.dispatch(ctx, false) != nil {
			return done + applied, err
		}`},
	{name: "failures acknowledged", scenario: "plain", finds: "event lost", file: loopFile,
		old: `			l.delay(ctx, rest, err)
			return rest, 0
		}
	}
	return nil, 0`, new: `			l.delay(ctx, rest, err)
			return nil, 0
		}
	}
	return nil, 0`},
	{name: "folded events acknowledged with a failed one", scenario: "plain", finds: "event lost", file: loopFile,
		old: `		rest = rest[done:]
`, new: `		rest = rest[min(len(rest), max(done, fold-1)):]
`},
	{name: "unfinished groups acknowledged early", scenario: "early: plain", finds: "event lost", file: loopFile,
		old: `		finished <- groups[i][:len(groups[i])-len(again[i])]`, new: `		finished <- groups[i]`},
	{name: "dispatch before commit", scenario: "send", finds: "performed before its commit", file: turnFile,
		old: `	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`, new: `	for i := range next.Outbox {
		if batch, messages, err := t.batch(next.Outbox[i : i+1]); err == nil {
			t.performBatch(ctx, batch, messages)
		}
	}
	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`},
	{name: "answers given before they are stored", scenario: "task: unknown execution", finds: "answered and told expired", file: turnFile,
		old: `	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`, new: `	for _, token := range next.Tokens {
		if !waits(token) {
			_ = t.loop.ports.Tokens.Answer(ctx, token, *token.Answer, false)
		}
	}
	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {`},
	{name: "a conflict taken for success", scenario: "plain", finds: "event lost", file: turnFile,
		old: `	if err != nil {
		t.broken = err
		return err
	}
	logged`, new: `	if err != nil && !errors.Is(err, ErrConflict) {
		t.broken = err
		return err
	}
	logged`},
	{name: "outbox cleared whatever its revision", scenario: "queues: send", pauses: 1, finds: "effect lost", file: portsFile,
		old: `		if w.records[id.String()].revision != revision {`, new: `		if w.records[id.String()].revision < revision {`},
	{name: "producers' repeats not recognised", scenario: "repeat", finds: "applied twice", file: duplicatesFile,
		old: `	if eventID != "" {
		for _, known`, new: `	if eventID == "-" {
		for _, known`},
	{name: "parked twice, applied twice", scenario: "deploy: redrive", finds: "applied twice", file: duplicatesFile,
		old: `(known == appliedAt(d.place()) || known == appliedAt(d.ParkedFrom))`, new: `known == ""`},
	{name: "parked without the dead-letter queue", scenario: "redrive", faults: 2, finds: "event lost", file: parkingFile,
		old: `	if err := l.ports.Queue.Park(ctx, d, reason.Error()); err != nil {`, new: `	if err := error(nil); err != nil {`},
	{name: "no commit between services", scenario: "two services", finds: "service runs again", file: servicesFile,
		old: `	if s.unstored {
		err = s.commit(ctx)
	} else if len(next) > 0 {`, new: `	if len(next) > 0 {`},
	{name: "retry budget not counted", scenario: "killer", finds: "too many attempts", file: servicesFile,
		old: `	if len(next) > 0 && (isRedelivery || t.hasOtherQueue(s.delivery)) {`, new: `	if len(next) > 1<<20 {`},
	{name: "timers fire early", scenario: "timer", finds: "timer early", file: "messages.go",
		old: `			return timer.At.Sub(t.loop.config.Now())`, new: `			return min(0, timer.At.Sub(t.loop.config.Now()))`},
	{name: "timers of a migrated instance not scheduled", scenario: "migrate: service", finds: "not woken", file: "migrate.go",
		old: `	if len(stored.Services) > 0 {`, new: `	if len(stored.Services) > 1<<20 {`},
	{name: "sends without ID", scenario: "send", finds: "applied twice", file: effectsFile,
		old: `	body, err := withKeys(effect.Event, map[string]any{"$id": id, askedKey`, new: `	body, err := withKeys(effect.Event, map[string]any{askedKey`},
	{name: "stops of children get lost", scenario: "child is stopped", finds: "effect lost", file: effectsFile,
		old: `	statechart.StopInstance:   {message: (*turn).childMessage, repeatable: true},`,
		new: `	statechart.StopInstance:   {perform: func(*turn, context.Context, statechart.Effect) error { return nil }},`},
	{name: "ends of children get lost", scenario: "child ends", finds: "effect lost", file: effectsFile,
		old: `	notifyParent:              {message: (*turn).parentMessage},`,
		new: `	notifyParent: {perform: func(t *turn, ctx context.Context, effect statechart.Effect) error {
		message, err := t.parentMessage(effect)
		if err == nil && t.deliveries[0].ReceiveCount == 1 {
			_, err = t.loop.ports.Queue.Send(ctx, message)
		}
		return err
	}},`},
	{name: "a child comes to life after its stop", scenario: "child fails: meanwhile", finds: "orphan", file: "parent.go",
		old: `	case t.draft.Instance == nil && t.isNamedBy(form.Parent):
		return applicable, nil`, new: `	case t.draft.Instance == nil && t.isNamedBy(form.Parent):
		return skipped, nil`},
	{name: "failed starts of children not reported", scenario: "child fails", finds: "waits for ever", file: parkingFile,
		old: `			return l.failStart(ctx, d, form.Parent, reason)`, new: `			_ = form
			return nil`},
	{name: "token ledger ignored", scenario: "task", finds: "answered and told expired", file: portsFile,
		old: `		case token.Execution == "" && repeat, token.Execution != "" && t.answer == text:`, new: `		case token.Execution == "" && repeat:`},
	{name: "expiry reported again and again", scenario: "task", finds: "expiry told 2 times", file: tokenFile,
		old: `if !ok || !token.Expired {`, new: `if !ok && token.Expired {`},
	{name: "heartbeats only once", scenario: "task: heartbeats", finds: "waits for ever", file: "heartbeat.go",
		old: `	return t.schedule(ctx, at, form, heartbeatID(form))`, new: `	if form.Count > 1 {
		return nil
	}
	return t.schedule(ctx, at, form, heartbeatID(form))`},
	{name: "executions not polled", scenario: "execution", finds: "waits for ever", file: "poll.go",
		old: `	if end == nil {`, new: `	if end == nil && ctx != nil {
		return nil
	}
	if end == nil {`},
	{name: "ends of executions reported again", scenario: "execution", finds: "waits for ever", file: "execution.go",
		old: `return e.Name == end.Name })
		t.changed()`, new: `return e.Name == "-" })
		t.changed()`},
}

// fixed are defects that the loop once had. The test puts each of them back.
var fixed = []mutant{
	{name: "last sends forgotten", scenario: "aggregator", finds: "applied twice", file: duplicatesFile,
		old: `		if err := t.loop.ports.Store.KeepSends(ctx, t.draft.Record.Instance, queue, sends[:n], t.now().Add(sendsKeptFor)); err != nil {`,
		new: `		if err := error(nil); err != nil {`},
	{name: "last sends not read", scenario: "aggregator", finds: "applied twice", file: duplicatesFile,
		old: `	if !known && d.SentAt.UnixMilli()-askedAt(d.Body) > sentPromptly.Milliseconds() {`, new: `	if !known && d.SentAt.IsZero() {`},
	{name: "suspects processed beside others", scenario: "killer", finds: "innocent event parked", file: turnFile,
		old: `	switch suspicion := t.suspicion(); {`, new: `	under.slot = alone
	switch suspicion := t.suspicion(); {`},
	{name: "a neighbour uses up the only attempt", scenario: "killer and one attempt", finds: "innocent service exhausted", file: servicesFile,
		old: `ReceiveCount > 1 && t.slot == together &&`, new: `ReceiveCount > 1 && t.slot < together &&`},
	{name: "one message too many in a cycle", scenario: "ring", finds: "ring", file: "chain.go",
		old: `t.chain.Hops <= t.loop.config.HopsMax`, new: `t.chain.Hops <= t.loop.config.HopsMax+1`},
	{name: "failed write counts as a try", scenario: "plain: limit 1", faults: 2, finds: "innocent event parked", file: turnFile,
		old: `			t.takeBack(ctx, deliveries[done:], err)
`, new: `			_ = done
`},
	{name: "failed call counts as a try", scenario: "alias: limit 1", faults: 2, finds: "innocent event blamed", file: failureFile,
		old: `	case !isChartError(err) && !isFirst && now.Count > was.Count:`, new: `	case isFirst && now.Count > was.Count:`},
	{name: "item expires with effects owed", scenario: "end", finds: "expired in debt", file: "state.go",
		old: `		next.ExpireAt = time.Time{}`, new: `		next.ExpireAt = t.expireAt(next)`},
	{name: "parked before the decision is stored", scenario: "migrate: redrive", faults: 2, finds: "applied twice", file: parkingFile,
		old: `	case t.draft.Instance == nil:
		if err := t.loop.park`, new: `	case ctx != nil:
		if err := t.loop.park`},
	{name: "parking without an instance not remembered", scenario: "deploy: redrive", finds: "applied twice", file: duplicatesFile,
		old: `	case isUnstored || d.ReceiveCount > 1:`, new: `	case isUnstored && t.loop == nil:`},
	{name: "timer firings parked", scenario: "timer: limit 1", faults: 2, finds: "waits for ever", file: failureFile,
		old: `	if event.Type == statechart.TimerEvent || isOwn`, new: `	if isOwn`},
	{name: "heartbeats parked", scenario: "task: heartbeats", faults: 2, finds: "waits for ever", file: failureFile,
		old: ` || isOwn(event.Type) && errors.Is(reason, errAbandoned) && event.Type != startEvent {`, new: ` {`},
	{name: "refused claim not tried again", scenario: "alias", finds: "alias released by the living", file: aliasFile,
		old: `	err := t.claimNow(ctx, form.Alias)
	switch {`, new: `	err := ErrAliasTaken
	switch {`},
	{name: "refused claim reported at once", scenario: "alias", finds: "alias of another", file: aliasFile,
		old: `aliasTaken{Type: aliasTakenEvent, ID: id`, new: `aliasTaken{Type: AliasTaken, ID: id`},
	{name: "claims not fenced by the revision", scenario: "alias: both end", finds: "alias never released", file: portsFile,
		old: `stored.revision != revision {`, new: `stored.revision < 0 {`},
	{name: "answer repeated under the same revision", scenario: "task: unknown execution", faults: 2, finds: "answered and told expired", file: turnFile,
		old: `	if err := t.takeOver(ctx); err != nil {`, new: `	if err := error(nil); err != nil {`},
	{name: "expiry told without a look at the item", scenario: "task: unknown execution", finds: "answered and told expired", file: tokenFile,
		old: `		if !ok || !token.Expired {`, new: `		if !ok && token.Expired {`},
	{name: "outbox cleared under the same revision", scenario: "child with a service", finds: "cleared outbox comes back", file: portsFile,
		old: `		record.Revision++
		record.Outbox`, new: `		record.Outbox`},
	{name: "given-up effect not stored", scenario: "denied", pauses: 1, finds: "send lost", file: dispatchFile,
		old: `		if err != nil || t.gaveUp() {`, new: `		if err != nil {`},
	{name: "denied stop of a child given up", scenario: "denied: stop", finds: "orphan", file: "failed.go",
		old: ` && !slices.Contains(ofFamilies, kind)
}`, new: ` && len(ofFamilies) > 0
}`},
	{name: "rearming keeps the old IDs", scenario: "restore: then", finds: "cleared outbox comes back", file: rearmFile,
		old: `	snapshot, steps, err := stepcount.Raise(record.Snapshot, now.UnixMicro())`, new: `	_, steps, err := stepcount.Raise(record.Snapshot, now.UnixMicro())
	snapshot := record.Snapshot`},
	{name: "rearming does not put timers back", scenario: "restore: timer", finds: "not woken", file: rearmFile,
		old: `range instance.Timers() {`, new: `range instance.Timers()[:0] {`},
}

// ofOperators are defects in the code of operators' commands.
var ofOperators = []mutant{
	{name: "change of an old record written", scenario: "stop: service", finds: "taken back", file: operationsFile,
		old: `	err = o.Store.Commit(ctx, after)
	if errors.Is(err, durable.ErrUnstorable)`, new: `	if latest, err := o.Store.Load(ctx, id); err == nil {
		after.Revision = latest.Revision + 1
	}
	err = o.Store.Commit(ctx, after)
	if errors.Is(err, durable.ErrUnstorable)`},
	{name: "wake-up not sent", scenario: "stop: child", finds: "not woken", file: operationsFile,
		old: `	return o.Queue.Send(ctx, message)`, new: `	return message.DeduplicationID, nil`},
	{name: "interrupted stop not completed", scenario: "stop: child", finds: "not woken", file: operationsFile,
		old: `	if err != nil && !errors.Is(err, instances.ErrEnded) && !errors.Is(err, instances.ErrInUse) && !errors.Is(err, errOtherRevision) {`, new: `	if err != nil {`},
	{name: "interrupted move to a lane not completed", scenario: "lanes: back", finds: "not woken", file: operationsFile,
		old: ` && !errors.Is(err, instances.ErrInUse) && !errors.Is(err, errOtherRevision)`, new: ` && !errors.Is(err, errOtherRevision)`},
	{name: "own write taken for a conflict", scenario: "move: service", finds: "2 times", file: operationsFile,
		old: `		if slices.ContainsFunc(stored.History, isOwn) {`, new: `		if slices.ContainsFunc(stored.History[:0], isOwn) {`},
	{name: "effects of an exit dropped", scenario: "stop: child", finds: "exit of a child", file: operateFile,
		old: `	for _, effect := range effects {`, new: `	for _, effect := range effects[:0] {`},
	{name: "parent not told of a stop", scenario: "stop: child", finds: "waits for ever", file: operateFile,
		old: `	if t.draft.Record.Parent != nil {
		t.owe`, new: `	if t.draft.Record.Parent != nil && t.machine == nil {
		t.owe`},
	{name: "an operator's change counts as a try", scenario: "keep: service", faults: 2, finds: "innocent event parked", file: "attempt.go",
		old: `		if errors.Is(err, ErrConflict) {
			lost = read`, new: `		if lost = read; errors.Is(err, ErrConflict) {
			return`},
	{name: "migrated instance not woken", scenario: "move: migrate", finds: "not woken", file: operationsFile,
		old: `instance.Settled() && len(stored.Services) == 0`, new: `instance.Settled()`},
	{name: "unkeep changes nothing", scenario: "forget: keep", finds: "kept", file: operateFile,
		old: `record.Kept = op.Kind == instances.Keep`, new: `record.Kept = true`},
	{name: "kept item expires", scenario: "keep: end", finds: "expiry", file: "state.go",
		old: `if next.Kept || next.Owes() {`, new: `if next.Owes() {`},
	{name: "change without an entry in the history", scenario: "keep: end", finds: "not in the history", file: operateFile,
		old: `		t.addOperation(op, record.State, record.State)
		return record.Snapshot, nil`, new: `		return record.Snapshot, nil`},
	{name: "kept instance forgotten", scenario: "forget: keep", finds: "forgotten in use", file: operateFile,
		old: `	case was.Kept:`, new: `	case was.Kept && was.Owes():`},
	{name: "instance with effects forgotten", scenario: "forget", finds: "forgotten in use", file: operateFile,
		old: `	case was.Owes():`, new: `	case was.Kept && was.Owes():`},
	{name: "watermark forgotten", scenario: "forget", finds: "another instance", file: operateFile,
		old: `CreatedAt: was.CreatedAt, Watermark: was.Watermark,`, new: `CreatedAt: was.CreatedAt,`},
	{name: "parent forgotten", scenario: "forget: parent", finds: "another instance", file: operateFile,
		old: `Parent: was.Parent, CreatedAt`, new: `CreatedAt`},
	{name: "children of a terminated instance go on", scenario: "stop: parent", finds: "orphan", file: operateFile,
		old: `		t.owe(statechart.Effect{ID: "child."`, new: `		_ = (statechart.Effect{ID: "child."`},
	{name: "terminate runs the chart", scenario: "stop: send", finds: "not in the history", file: operateFile,
		old: `		return t.terminate(op)`, new: `		op.Kind = instances.Stop
		return t.operate(op, trace)`},
	{name: "terminate leaves timers", scenario: "stop: timer", finds: "not woken", file: operateFile,
		old: `{"timers", "services", "children"}`, new: `{"services", "children"}`},
	{name: "ended instance stopped again", scenario: "two operators", finds: "timer fires 0 times", file: operateFile,
		old: `	case record.Status != statechart.Active:`, new: `	case record.Status == "":`},
	{name: "stops that a migration asks for dropped", scenario: "stop: migrate child", finds: "orphan", file: operateFile,
		old: `	record.Outbox = slices.Concat(record.Outbox, owed)`, new: `	_ = owed`},
	{name: "outbox replaced by a change", scenario: "stop: denied", finds: "effect lost", file: operateFile,
		old: `slices.Concat(record.Outbox, owed)`, new: `owed`},
	{name: "aliases of a stopped instance stay claimed", scenario: "stop: alias", finds: "alias never released", file: operateFile,
		old: `	t.endWaits(instances.Answer{Error: ErrorStopped, Cause: cut(message, causeBytesMax)})
`, new: ``},
	{name: "effects of a change wake no consumer", scenario: "move: timer", finds: "not woken", file: operationsFile,
		old: `return record.Owes() || !isSettled`, new: `return !isSettled`},
	{name: "services of a change wake no consumer", scenario: "move: service", finds: "not woken", file: operationsFile,
		old: `return record.Owes() || !isSettled`, new: `return record.Owes() || isSettled && false`},
	{name: "hops not counted", scenario: "ring", finds: "hops", file: "chain.go",
		old: `	chain.Hops++
`, new: ``},
	{name: "one message too few in a cycle", scenario: "ring", finds: "hops", file: "chain.go",
		old: `t.chain.Hops <= t.loop.config.HopsMax`, new: `t.chain.Hops < t.loop.config.HopsMax`},
}

// ofLanes are defects of lanes and of the moves between them.
var ofLanes = []mutant{
	{name: "no lane is home", scenario: "lanes: move", finds: "out of order", file: lanesFile,
		old: `	case t.draft.Instance == nil ||`, new: `	case true ||`},
	{name: "the new lane does not wait", scenario: "lanes: move", finds: "out of order", file: lanesFile,
		old: `		return early
`, new: `		return atHome
`},
	{name: "forwarded without a decision", scenario: "lanes: same route", finds: "cleared outbox comes back", file: lanesFile,
		old: `	t.pass(d)
	return nil
}

// isLaneChange`, new: `	return nil
}

// isLaneChange`},
	{name: "copies are not recognised", scenario: "lanes: same route", finds: "applied twice", file: lanesFile,
		old: `	return from != (instances.Place{}) &&`, new: `	return false && from != (instances.Place{}) &&`},
	{name: "a child starts in another lane", scenario: "lanes: child", finds: "forwarded", file: effectsFile,
		old: `DeduplicationID: shortened(id), Lane: t.ownLane()}, err`, new: `DeduplicationID: shortened(id)}, err`},
	{name: "an event to a child goes to another lane", scenario: "lanes: child", finds: "forwarded", file: "child.go",
		old: `DeduplicationID: shortened(id), Lane: t.ownLane()}, err`, new: `DeduplicationID: shortened(id)}, err`},
	{name: "forwarded to the old lane", scenario: "lanes: third", finds: "out of order", file: lanesFile,
		old: `		lane = moving.Lane
`, new: `		_ = moving
`},
	{name: "sends are counted by the last queue", scenario: "lanes: send", finds: "applied twice", file: portsGoFile,
		old: `cmp.Or(d.Forwarding.SentTo, d.Queue)`, new: `cmp.Or(d.Queue, d.Forwarding.SentTo)`},
	{name: "the move is not rearmed", scenario: "lanes: restore", finds: "moves for ever", file: rearmFile,
		old: `	if record.Moving != nil {`, new: `	if record.Moving != nil && record.Lane == "?" {`},
}

// ofOutboxes are defects of outboxes that the next event clears, and of cached copies.
var ofOutboxes = []mutant{
	{name: "outbox cleared by its own event", scenario: "send", finds: "effect lost", file: outboxFile,
		old: `isLater = isOfQueue && !isAppliedIn(*record, first)`, new: `isLater = isOfQueue`},
	{name: "outbox cleared by an event of another queue", scenario: "queues: send", finds: "effect lost", file: outboxFile,
		old: `isLater = isOfQueue && !isAppliedIn(*record, first)`, new: `isLater = !isAppliedIn(*record, first)`},
	{name: "outbox left with two queues", scenario: "queues: send between", finds: "effect lost", file: outboxFile,
		old: `len(next.Watermark) != 1`, new: `len(next.Watermark) == 0`},
	{name: "outbox of an acknowledged event", scenario: "migrate: child", finds: "effect lost", faults: 2, file: outboxFile,
		old: `isNew && !isAppliedIn(t.loaded.Record, d)`, new: `isNew || d.SequenceNumber != ""`},
	{name: "decision by a stale copy", scenario: "copies: timer", finds: "waits for ever", file: "hydrate.go",
		old: `	return t.isCopy && t.stored.Record.Revision == t.loaded.Record.Revision`, new: `	return false`},
	{name: "service over a stale copy", scenario: "copies: late service", finds: "service of an ended instance", file: servicesFile,
		old: `	if len(next) > 0 && t.isUnproved() {`, new: `	if len(next) > 0 && t.isUnproved() && s.unstored {`},
}
