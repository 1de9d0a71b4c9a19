package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/tour"
)

// quickDemo is a command whose "dev --demo" has almost no pauses.
func quickDemo() command.Config {
	return settleWith(&hosted{demo: tour.Config{Pause: time.Millisecond, PickUpTimeout: time.Second, UploadWindow: 5 * time.Second, TimeLimit: 5 * time.Minute}})
}

func TestDevPlaysTheDemo(t *testing.T) {
	t.Parallel()
	dev := startDevOf(t, quickDemo(), "--demo")
	welcome := strings.Join(dev.welcome, "\n")
	contains(t, welcome, "Watch the demo at "+dev.gateway+"/console/machines/job\n")
	if strings.Contains(welcome, "SIGN_UP") {
		t.Errorf("expected no commands to paste, got:\n%s", welcome)
	}
	dev.screen.await(t, "watch "+dev.gateway+"/console/instances/job/run-1001-job-1")
	dev.screen.await(t, "All scenes have been played. They begin again with new instances.")
	// settle demo prints the same final states.
	for name, state := range map[string]string{
		"job/run-1001-job-1": "success", "job/run-1002-job-2": "not_picked_up", "signup/ada": "active", "enrich/demo-7": "succeeded", "enrich/demo-8": "failed",
	} {
		shown := dev.ask(t, "get", "--local", name)
		var got struct {
			Status string   `json:"status"`
			State  []string `json:"state"`
		}
		if err := json.Unmarshal([]byte(shown.out), &got); err != nil || got.Status != "done" || strings.Join(got.State, " ") != state {
			t.Errorf("expected %s to be done in %s, got %+v and %v", name, state, shown, err)
		}
	}
	for machine, want := range map[string]int{"pipeline": 5, "upload": 1} {
		if listed := dev.ask(t, "list", "--local", "--machine", machine, "--status", "done"); strings.Count(listed.out, `"instance":`) != want {
			t.Errorf("expected %d instances of %s to be done, got %+v", want, machine, listed)
		}
	}
	dev.screen.await(t, "watch "+dev.gateway+"/console/instances/job/run-2001-job-1")
	dev.end(t)
}

func TestDevStopsInTheMiddleOfTheDemo(t *testing.T) {
	t.Parallel()
	config := settleWith(&hosted{demo: tour.Config{Pause: time.Hour, PickUpTimeout: time.Hour, UploadWindow: time.Hour, TimeLimit: time.Hour}})
	dev := startDevOf(t, config, "--demo")
	dev.screen.await(t, "1. A GitHub workflow job runs")
	dev.stop()
	rest := dev.screen.await(t, "Stopping.")
	for line := range dev.screen.lines {
		rest = append(rest, line)
	}
	if code := <-dev.ended; code != command.ExitDone {
		t.Errorf("expected exit code 0, got %d", code)
	}
	if text := strings.Join(rest, "\n"); strings.Contains(text, "ended early") || regexp.MustCompile(`(?m)^\d\. `).MatchString(text) {
		t.Errorf("expected nothing but the end, got:\n%s", text)
	}
}

func TestDevOpensTheConsole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		page  string
	}{{[]string{"--open"}, "/console/"}, {[]string{"--open", "--demo"}, "/console/machines/job"}} {
		opened := make(chan string, 1)
		dev := startDevIn(t, quickDemo(), command.Process{Open: func(target string) error { opened <- target; return nil }}, c.flags...)
		if got := <-opened; got != dev.gateway+c.page {
			t.Errorf("%v: expected %s, got %s", c.flags, dev.gateway+c.page, got)
		}
		dev.end(t)
	}
}

func TestDevRefusesFlagsThatDoNotGoWithTheDemo(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"--clock virtual":          "--demo: expected no --clock virtual with it, because the timers of the scenes would stand still between two advances",
		"--consumer bootstrap":     "--demo: expected no --consumer with it, because the scenes read the log of the consumer in this process",
		"--data " + t.TempDir():    "--demo: expected no --data with it, because each start begins with the same instances",
		"--job-pick-up-timeout 1m": "--job-pick-up-timeout: expected no --demo with it, because the scenes need a short timeout of their own",
	} {
		got := user{t: t}.run(append([]string{"dev", "--demo"}, strings.Fields(flags)...)...)
		if got.code != command.ExitUsage || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: expected exit code 2 and %q, got %+v", flags, want, got)
		}
	}
}
