// Package statecharttest is what authors of charts test with: no AWS, no host, no real time.
//
// A [Player] plays one instance of a chart as a host would, in virtual time:
//
//	p := statecharttest.Play(t, signup.New(mailer, accounts, signup.Config{}), statecharttest.Config{})
//	p.Send("SIGN_UP", signup.SignUp{Email: "ada@example.com", Name: "Ada"})
//	p.Advance(24 * time.Hour)
//	if got := p.State(); got != "expired" {
//		t.Errorf("after a day: expected expired, got %s", got)
//	}
//
// Events go through the chart's own Decode, so their payloads are checked. Services are the
// chart's own functions, with their retry policies and timeouts; waits move the virtual clock.
// After every macrostep the player checks what a host relies on: that the snapshot reads back
// from its JSON unchanged, that the snapshot stepped from was left alone, and that the same
// step comes out the same again. It goes on from what was read back.
//
// # Golden scripts
//
// [RunScripts] plays text files and compares what happens with what they say:
//
//	start mail=(fail, ok)
//	----
//	starts in new
//
//	send SIGN_UP email=ada@example.com name=Ada
//	----
//	new -> unverified.registering -> unverified.awaiting_verification
//	  effect 2.0 schedule unverified after 24h0m0s at +24h0m0s
//	  service 2.1 sendVerification attempt 1 failed: outcome fail, again in 5s
//	  service 2.1 sendVerification attempt 2 done
//
//	advance 24h
//	----
//	+24h0m0s unverified after 24h0m0s: unverified.awaiting_verification -> expired
//	  done, output {"outcome":"expired"}
//
// The states are those after each macrostep. Times that begin with + count from the start.
// go test -rewrite writes what happens into the files; review it as a diff.
//
// The commands:
//
//   - start begins a new instance. Its arguments are for the fakes, see [Setup].
//   - send TYPE sends an event. key=value adds a string to its payload, key=(a, b) a list of
//     strings, key:=json any JSON. A JSON object on the lines below the command is the rest of
//     the payload.
//   - advance DURATION lets time pass.
//   - child ID done ends a child instance; JSON on the lines below the command is its output.
//     child ID failed WORDS ends it with an error. What a child does is for its own machine's
//     test.
//   - state shows where the instance stands: its state, tags, next events, timers, children and
//     deferred events.
//   - context shows what changed in the context since the last context, or since start; with
//     keys as arguments, only those.
//
// # Coverage
//
// RunScripts returns a [Coverage]: the states that its scripts entered and the transitions that
// they took. Require fails the test for what none of them does, unless that has a reason:
//
//	statecharttest.RunScripts(t, "testdata", newChart).Require(t,
//		statecharttest.AllowedMiss{Name: "state overdue", Reason: "the limit is GitHub's, and comes first"})
//
// Other players fill the Coverage in their [Config].
//
// # Paths
//
// [ShortestPaths] and [SimplePaths] are getShortestPaths and getSimplePaths of XState: they explore
// a chart with the events that they are given, the outcomes of its services and its timers.
// [FinalPaths] shows that every outcome can come about. [RunPaths] makes tests of the paths:
//
//	config := statecharttest.PathConfig[job.Context]{
//		Events: []statecharttest.Event{
//			{Type: "queued", Payload: queued},
//			{Type: "completed", Payload: failure, Name: "completed with failure"},
//		},
//		Invariant: func(s statechart.Snapshot[job.Context]) error {
//			if s.Context.Launches > 3 {
//				return fmt.Errorf("expected at most 3 launches, got %d", s.Context.Launches)
//			}
//			return nil
//		},
//	}
//	statecharttest.RunPaths(t, chart, config, nil)
//
// States are the same if value and context are, see [ByContext]. A chart whose context counts
// without end has paths without end, and more than a limit are an error: give it fewer events, a
// StopWhen, or [ByValue].
package statecharttest
