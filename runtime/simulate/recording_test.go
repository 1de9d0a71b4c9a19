package simulate_test

import (
	"bytes"
	"log/slog"
	"strings"

	"github.com/settle-run/settle/runtime/recording"
)

// recorded is the log of a recorder that records all instances of a run.
type recorded struct {
	text     bytes.Buffer // the logger guards it
	recorder *recording.Recorder
}

func newRecorded() (*recorded, error) {
	r := &recorded{}
	var err error
	r.recorder, err = recording.New(slog.New(slog.NewJSONHandler(&r.text, nil)), recording.Config{Share: 1})
	return r, err
}

// checkRecording checks that the recorded steps of each instance lead to the same states on the same machines.
func (s *simulation) checkRecording() {
	var assembly recording.Assembly
	// With a short retention, a repeat of the first event can start a deleted instance again, under the same time of creation.
	last, restarted := map[string]int64{}, map[string]bool{}
	for commit, err := range recording.Read(&s.recorded.text) {
		if err == nil {
			restarted[commit.Instance] = restarted[commit.Instance] || s.plan.retention > 0 && commit.Revision <= last[commit.Instance]
			last[commit.Instance] = commit.Revision
			err = assembly.Add(commit)
		}
		if err != nil {
			s.problem("reading the recording: %v", err)
		}
	}
	runs, err := assembly.Runs()
	if err != nil {
		s.problem("assembling the recording: %v", err)
	}
	for _, run := range runs {
		if strings.HasPrefix(run.Instance, fieldsMachine+"/") {
			continue // Two builds of one version took the steps.
		}
		if restarted[run.Instance] {
			continue
		}
		machines := s.machines
		if run.Version != firstVersion {
			machines = s.deployed
		}
		if err := run.Play(machines, snapshotBytesMax); err != nil {
			s.problem("replaying %s, version %d: %v", run.Instance, run.Version, err)
		}
		s.count("recorded runs", 1)
		s.count("recorded steps", len(run.Steps))
		if run.Base == nil {
			s.count("recorded runs from the start", 1)
		}
	}
}
