package recording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/settle-run/settle/runtime/instances"
)

// Assembly collects commits and assembles them into runs. It keeps all commits in memory.
type Assembly struct {
	byInstance map[instanceKey][]Commit
	order      []instanceKey
}

// instanceKey identifies an instance among all instances of its name.
type instanceKey struct {
	name      string
	createdAt int64
}

// Add adds a commit. The order of the commits does not matter, and a commit may be added twice.
func (a *Assembly) Add(commit Commit) error {
	if _, err := instances.ParseID(commit.Instance); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if a.byInstance == nil {
		a.byInstance = map[instanceKey][]Commit{}
	}
	key := instanceKey{commit.Instance, commit.CreatedAt.UnixMilli()}
	if a.byInstance[key] == nil {
		a.order = append(a.order, key)
	}
	a.byInstance[key] = append(a.byInstance[key], commit)
	return nil
}

// Instances returns the number of instances.
func (a *Assembly) Instances() int { return len(a.order) }

// Runs returns the runs of each instance, in the order in which the instances were added. The steps have no outcomes
// yet. A commit continues a run if no step is missing between the two and the version of the chart is the same.
// Otherwise its snapshot is the base of another run. The step counts in the snapshots show missing steps. A base
// without steps is not a run.
func (a *Assembly) Runs() (runs []Run, err error) {
	for _, key := range a.order {
		commits := slices.Clone(a.byInstance[key])
		slices.SortStableFunc(commits, func(a, b Commit) int { return cmp.Compare(a.Revision, b.Revision) })
		commits = slices.CompactFunc(commits, func(a, b Commit) bool { return a.Revision == b.Revision })
		found, err := runsOf(commits)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFormat, key.name, err)
		}
		runs = append(runs, found...)
	}
	return runs, nil
}

// counted is the part of a snapshot that shows whether a step is missing.
type counted struct {
	Version int   `json:"version"`
	Steps   int64 `json:"steps"`
}

// runsOf assembles the commits of one instance into runs, in the order of their revisions.
func runsOf(commits []Commit) (runs []Run, err error) {
	var run *Run
	var last counted
	for _, commit := range commits {
		var now counted
		if err := json.Unmarshal(commit.Snapshot, &now); err != nil {
			return nil, fmt.Errorf("reading the snapshot of revision %d: %w", commit.Revision, err)
		}
		before := now.Steps
		for _, event := range commit.Events {
			if !event.Ignored {
				before--
			}
		}
		events := commit.Events
		if run == nil || last != (counted{now.Version, before}) {
			runs = append(runs, Run{Instance: commit.Instance, Version: now.Version})
			run = &runs[len(runs)-1]
			if start, ok := startOf(before, commit); ok {
				events = append(start, events...)
			} else {
				run.Base, events = commit.Snapshot, nil
			}
		}
		for _, event := range events {
			run.Steps = append(run.Steps, Step{Event: event})
		}
		last = now
	}
	return slices.DeleteFunc(runs, func(run Run) bool { return len(run.Steps) == 0 }), nil
}

// startOf reports whether the events of a commit begin with the start of the instance. An instance without a parent
// starts with its first event, in the same commit. The history does not show this start, so startOf returns a step for
// it. `before` is the count of steps before the events. The start is one step, so the count is 1. A later commit has
// the same count if the chart ignored all earlier events, so startOf also checks the revision.
func startOf(before int64, commit Commit) (start []Event, ok bool) {
	switch events := commit.Events; {
	case len(events) == 0:
		return nil, false
	case before == 0:
		return nil, events[0].Type == startStep
	case before == 1 && commit.Revision == 1 && commit.Parent == "":
		return []Event{{Type: startStep, At: events[0].At}}, true
	default:
		return nil, false
	}
}
