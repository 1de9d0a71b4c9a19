// Package statecharttest tests charts without AWS, host or real time.
//
// A [Player] plays one instance of a chart in virtual time, as a host would:
//
//	p := statecharttest.Play(t, signup.New(mailer, accounts, signup.Config{}), statecharttest.Config{})
//	p.Send("SIGN_UP", signup.SignUp{Email: "ada@example.com", Name: "Ada"})
//	p.Advance(24 * time.Hour)
//	if got := p.State(); got != "expired" {
//		t.Errorf("after a day: expected expired, got %s", got)
//	}
//
// Events pass through the chart's own Decode, which checks their payloads. Services are the chart's own functions, with
// their retry policies and timeouts. Waits between attempts advance the virtual clock.
//
// After every macrostep the player checks the assumptions of a host. The snapshot must survive a round trip through
// JSON. A step must not change the snapshot passed to it. A repeated step must give the same result. The player
// continues from the restored snapshot.
//
// # Golden scripts
//
// [RunScripts] plays text files and compares the results with the expected ones:
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
// The results show the states after each macrostep. Times with + are relative to the start. go test -rewrite writes the
// actual results into the files. Review them as a diff.
//
// The commands:
//
//   - start starts a new instance. Its arguments configure the fakes: see [Setup]. JSON on the lines below the command
//     is the instance's input.
//   - send TYPE sends an event. key=value adds a string to its payload, key=(a, b) a list of
//     strings, key:=json any JSON. A JSON object on the lines below the command adds further keys.
//   - advance DURATION lets time pass.
//   - child ID done ends a child instance. JSON on the lines below the command is its output.
//     child ID failed WORDS ends it with an error. Test the child's own behaviour with its machine.
//   - state shows the state, tags, next events, timers, children and deferred events.
//   - context shows the changes of the context since the last context command or the start.
//     Arguments select keys.
//
// # Coverage
//
// RunScripts returns a [Coverage]: the states that its scripts entered and the transitions that they took. Require
// fails the test for each miss that you do not allow with a reason:
//
//	statecharttest.RunScripts(t, "testdata", newChart).Require(t,
//		statecharttest.AllowedMiss{Name: "state overdue", Reason: "GitHub's own limit ends the job earlier"})
//
// Other players fill the Coverage in their [Config].
//
// # Paths
//
// [ShortestPaths] and [SimplePaths] correspond to getShortestPaths and getSimplePaths in XState. They explore a chart
// with the events that you configure, the outcomes of its services and children, and its timers. [FinalPaths] shows
// that every outcome is reachable. [RunPaths] turns the paths into tests:
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
// Two states are the same if their values and contexts are equal: see [ByContext]. A chart with an unbounded counter in
// its context has infinitely many paths, so exploring it exceeds a limit. Use fewer events, a StopWhen, or [ByValue].
package statecharttest
