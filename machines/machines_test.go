package machines_test

import (
	"testing"
	"time"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
)

func TestMachinesAreHostedAsTheirPackagesSay(t *testing.T) {
	t.Parallel()
	all := machines.All(machines.Services{}, machines.Settings{JobRetention: time.Hour})
	for i, want := range []struct {
		id        string
		retention time.Duration
		starts    string
		continues string
	}{
		{"job", time.Hour, job.StartedBy[0], "VERIFY"},
		{"signup", signup.Retention, "SIGN_UP", "VERIFY"},
	} {
		machine := all[i]
		if machine.ID() != want.id || machine.Retention() != want.retention {
			t.Errorf("machine %d: got %s, kept for %v, want %s, %v", i, machine.ID(), machine.Retention(), want.id, want.retention)
		}
		if !machine.StartedBy(want.starts) || machine.StartedBy(want.continues) {
			t.Errorf("%s: started by %s: %t, by %s: %t, want only the first", want.id,
				want.starts, machine.StartedBy(want.starts), want.continues, machine.StartedBy(want.continues))
		}
	}
	if len(all) != 2 {
		t.Errorf("%d machines, want 2", len(all))
	}
}
