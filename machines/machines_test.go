package machines_test

import (
	"testing"
	"time"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/machines/upload"
)

func TestSampleChartsHaveNoWarnings(t *testing.T) {
	t.Parallel()
	for _, machine := range machines.All(machines.Services{}, machines.Settings{}) {
		if warnings := machine.Describe().Warnings; len(warnings) > 0 {
			t.Errorf("%s: want no warnings, got %+v", machine.ID(), warnings)
		}
	}
}

func TestMachinesUseTheirPackagesDefaults(t *testing.T) {
	t.Parallel()
	all := machines.All(machines.Services{}, machines.Settings{JobRetention: time.Hour})
	for _, want := range []struct {
		id        string
		retention time.Duration
		starts    string
		continues string
	}{
		{"enrich", enrich.Retention, enrich.StartedBy[0], "VERIFY"},
		{"job", time.Hour, job.StartedBy[0], "VERIFY"},
		{"signup", signup.Retention, "SIGN_UP", "VERIFY"},
		{"pipeline", pipeline.Retention, pipeline.StartedBy[0], "VERIFY"},
		{"upload", upload.Retention, upload.StartedBy[0], "VERIFY"},
	} {
		i := 0
		for i < len(all)-1 && all[i].ID() != want.id {
			i++
		}
		machine := all[i]
		if machine.ID() != want.id {
			t.Fatalf("want the machine %s among all, got none", want.id)
		}
		if machine.Retention() != want.retention {
			t.Errorf("%s: kept for %v, want %v", want.id, machine.Retention(), want.retention)
		}
		if !machine.StartedBy(want.starts) || machine.StartedBy(want.continues) {
			t.Errorf("%s: started by %s: %t, by %s: %t, want only the first", want.id,
				want.starts, machine.StartedBy(want.starts), want.continues, machine.StartedBy(want.continues))
		}
	}
}
