package host_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/recording"
)

// TestConsumerRecordsInstancesAtAnyLogLevel runs the functions, and replays the lines of the consumer's log on the same
// machines.
func TestConsumerRecordsInstancesAtAnyLogLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{host.Record: "1", host.RecordRedact: "email, labels", host.RecordKey: "0123456789abcdef", host.LogLevel: "error"})
	stop := w.poll()
	w.send("signup/1", `{"type":"SIGN_UP","email":"canary@example.com","name":"Ada"}`)
	w.until("signup/1", func(r instances.Record) bool { return strings.HasSuffix(fmt.Sprint(r.State), "awaiting_verification]") })
	w.send("signup/1", `{"type":"CANCEL"}`)
	w.until("signup/1", func(r instances.Record) bool { return fmt.Sprint(r.State) == "[cancelled]" })
	stop()
	if log := w.logs.String(); strings.Contains(log, "canary") || !strings.Contains(log, `"name":"Ada"`) {
		t.Errorf("expected redacted addresses in the log, got %s", log)
	}
	var assembly recording.Assembly
	for commit, err := range recording.Read(strings.NewReader(w.logs.String())) {
		if err == nil {
			err = assembly.Add(commit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runs, err := assembly.Runs()
	if err != nil || len(runs) != 1 {
		t.Fatalf("expected one run, got %+v and %v", runs, err)
	}
	hosted, err := samples.ConsumerMachines(&host.Process{Logger: slog.New(slog.DiscardHandler), Env: host.NewEnv(hosttest.Environment(samples.SignupCodeKey + "=0123456789abcdef"))})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := durable.NewMachines(hosted...)
	if err == nil {
		err = runs[0].Play(machines, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, step := range runs[0].Steps {
		steps = append(steps, step.Type)
	}
	if got, want := strings.Join(steps, " "), "settle.start SIGN_UP done.invoke.unverified.registering CANCEL"; got != want {
		t.Errorf("got the steps %s, want %s", got, want)
	}
}
