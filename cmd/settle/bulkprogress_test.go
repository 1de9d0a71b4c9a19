package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// The calls of the command take longer than --rate expects.
func TestTheRemainingTimeOfABulkRunIsMeasured(t *testing.T) {
	t.Parallel()
	w := &work{toil: time.Second}
	withWork(t, w, func(u user) {
		const count, seen = 60, 30
		u.bulkSetUp(w, "keep", count)
		process, journal := u.slowly(80), filepath.Join(u.t.TempDir(), "journal")
		process.StdinTTY, process.In = true, strings.NewReader("y\n")
		got := u.runAs(process, "bulk", "keep", "--local", "--machine", "work", "--journal", journal)
		contains(u.t, got.err, "Listing 60 instances took ", " read units.\n", "keep: 60 instances of machine work in table settle, in about 2s? [y/N] ")
		contains(u.t, got.out, "60 instances: 60 changed, 0 skipped, 0 failed.\nReading them took ", " read units.\n")
		var shown, expected time.Duration
		took := 0
		for _, line := range regexp.MustCompile(`(\d+) of 60 instances, about (\S+) left, (\d+)s`).FindAllStringSubmatch(got.err, -1) {
			number, _ := strconv.Atoi(line[1])
			took, _ = strconv.Atoi(line[3])
			if number >= seen && shown == 0 {
				var err error
				if shown, err = time.ParseDuration(line[2]); err != nil {
					u.t.Fatal(err)
				}
				expected = -time.Duration(took) * time.Second
			}
		}
		expected += time.Duration(took) * time.Second
		if got.code != command.ExitDone || shown < expected*2/3 || shown > expected*3/2 {
			u.t.Errorf("expected about %v left after %d instances, got %v and %+v", expected, seen, shown, got)
		}
	})
}
