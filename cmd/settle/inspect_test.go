package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
)

// startReceiver follows the inspector at the address with the receiver of @statelyai/inspect. It returns what the
// receiver prints.
func startReceiver(t *testing.T, address string) screen {
	t.Helper()
	if _, err := os.Stat("testdata/npm/node_modules/@statelyai/inspect"); os.IsNotExist(err) && os.Getenv("CI") == "" {
		t.Skip("@statelyai/inspect is not installed: `make test` installs it")
	}
	printed := newScreen(t.Context())
	receiver := exec.CommandContext(t.Context(), "node", "testdata/npm/inspect.mjs", address)
	receiver.Stdout, receiver.Stderr = printed, printed
	in, err := receiver.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = receiver.Wait() }) // The end of the input ends the process.
	return printed
}

// The receiver connects after the first event of signup/42. It compares each message with the messages that
// @statelyai/inspect sends for an XState machine, and checks each snapshot against the definition.
func TestTheReceiverOfStatelyInspectFollowsDev(t *testing.T) {
	t.Parallel()
	dev := startDev(t, "--inspect")
	var address string
	for _, line := range dev.welcome {
		if rest, ok := strings.CutPrefix(line, "  inspect  http"); ok {
			address = "ws" + strings.Fields(rest)[0]
		}
	}
	send := func(args ...string) {
		t.Helper()
		if code, errOut := dev.settle(t, append([]string{"send", "--local"}, args...)...); code != command.ExitDone {
			t.Fatalf("expected exit code 0 of send %v, got %d and %q", args, code, errOut)
		}
	}
	send("signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada")
	dev.screen.await(t, "unverified.registering → unverified.awaiting_verification")
	received := startReceiver(t, address)
	go func() {
		for range dev.screen.lines { // dev waits until its lines are read
		}
	}()
	expect := func(want string) {
		t.Helper()
		if got := received.await(t, ""); got[0] != want {
			t.Fatalf("expected the receiver to print\n  %s\ngot\n  %s", want, got[0])
		}
	}
	const waiting = ` {"unverified":"awaiting_verification"} active`
	expect(`@xstate.actor signup/42` + waiting)
	expect(`@xstate.snapshot signup/42 done.invoke.unverified.registering` + waiting)
	send("signup/42", "VERIFY", "code=wrong")
	expect(`@xstate.event signup/42 VERIFY code`)
	expect(`@xstate.snapshot signup/42 VERIFY code` + waiting)
	send("signup/43", "SIGN_UP", "email=ada@example.com", "name=Ada")
	expect(`@xstate.actor signup/43` + waiting)
	expect(`@xstate.event signup/43 SIGN_UP email name`)
	expect(`@xstate.event signup/43 done.invoke.unverified.registering output`)
	expect(`@xstate.snapshot signup/43 done.invoke.unverified.registering output` + waiting)
	send("signup/42", "CANCEL")
	expect(`@xstate.event signup/42 CANCEL`)
	expect(`@xstate.snapshot signup/42 CANCEL "cancelled" done`)
	dev.end(t)
}
