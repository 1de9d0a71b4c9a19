package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/recording"
)

type replayCommand struct {
	Recordings []string `arg:"" name:"recording" help:"The files of settle record, also compressed with gzip. - is standard input."`
	Accept     []string `placeholder:"FILE" help:"Do not report the differences in this file, which settle replay -o json has written. Repeatable."`
	outputFlag
}

// replayAnswer is the JSON of replay.
type replayAnswer struct {
	Machines    []recording.Count `json:"machines"`
	Differences []recording.Row   `json:"differences"`
}

// Run plays the recorded runs on this build and shows the differences.
func (c *replayCommand) Run(s *session) error {
	known, err := s.machines()
	if err != nil {
		return err
	}
	var accepted []recording.Row
	for _, name := range c.Accept {
		var earlier replayAnswer
		if err := s.readFile(name, func(file io.Reader) error { return readAccepted(file, &earlier) }); err != nil {
			return err
		}
		accepted = append(accepted, earlier.Differences...)
	}
	replay := recording.NewReplay(known, accepted)
	if err := eachIn(s, c.Recordings, recording.Runs, s.newProgress("run replayed", "runs replayed"), replay.Add); err != nil {
		return err
	}
	if replay.IsForeign() {
		return fmt.Errorf("%w: the recording belongs to another project: expected instances of %s, got only others", errUsage, strings.Join(known.IDs(), ", "))
	}
	answer := replayAnswer{replay.Counts(), replay.Rows()}
	err = c.answer(s, answer, func() error {
		if len(answer.Machines) == 0 {
			return s.printf("No runs.\n")
		}
		return view.WriteReplay(s.Out, s.style, answer.Machines, answer.Differences)
	})
	runs, different := 0, 0
	for _, count := range answer.Machines {
		runs, different = runs+count.Same+count.Partial+count.Differ, different+count.Differ
	}
	if err == nil && different > 0 {
		err = fmt.Errorf("%d of %d runs differ on this build: change the build, or accept the differences with --accept", different, runs)
	}
	return err
}

// readAccepted reads the JSON of an earlier replay.
func readAccepted(file io.Reader, accepted *replayAnswer) error {
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, accepted); err != nil || accepted.Differences == nil {
		return fmt.Errorf("%w: expected the output of settle replay -o json, got another file", recording.ErrFormat)
	}
	return nil
}
