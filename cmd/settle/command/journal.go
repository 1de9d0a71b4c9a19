package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"
)

// journal is the file of a bulk run: JSON lines with the run, the chosen instances, and the outcome of each. An
// interrupted run continues from its journal. In memory, a journal keeps only counts and the numbers of instances that
// finished out of order.
type journal struct {
	path string
	// run describes the run. Only the same command on the same table may continue it.
	run bulkRun
	// listed is the number of chosen instances. It is -1 while the list is incomplete.
	listed int
	// begun is set before the first change of an instance.
	begun  bool
	counts map[outcome]int

	mu   sync.Mutex
	file *os.File
	// The first `done` instances of the list have an outcome. `ahead` holds the numbers of later instances with an
	// outcome.
	done  int
	ahead map[int]bool
}

// outcome is the result for one instance of a bulk run.
type outcome string

const (
	outcomeChanged outcome = "changed"
	// outcomeSkipped means that the instance no longer matched when its turn came.
	outcomeSkipped outcome = "skipped"
	outcomeFailed  outcome = "failed"
)

// bulkRun identifies a run. It is the first line of a journal.
type bulkRun struct {
	// Command has the arguments of settle bulk: the action first, then its arguments and the filter.
	Command []string `json:"command"`
	Table   string   `json:"table"`
	// Stamp is when the run began, in microseconds since 1970.
	Stamp int64 `json:"stamp"`
}

// journalLine is a line of a journal after the first: an instance, the end of the list, the start of the changes, or an
// outcome.
type journalLine struct {
	Instance string  `json:"instance,omitempty"`
	Listed   *int    `json:"listed,omitempty"`
	Begun    bool    `json:"begun,omitempty"`
	Done     *int    `json:"done,omitempty"`
	Outcome  outcome `json:"outcome,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// errOtherRun is returned by openJournal if the journal belongs to another, incomplete run.
var errOtherRun = errors.New("the journal belongs to another run")

// openJournal creates the journal of a run, or opens the journal of a run to continue. If isNew is true, the instances
// must be listed first. With errOtherRun, the returned journal is closed and describes the other run.
func openJournal(path string, run bulkRun) (j *journal, isNew bool, err error) {
	j = &journal{path: path, run: run, listed: -1, counts: map[outcome]int{}, ahead: map[int]bool{}}
	if j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, false, err
	}
	size, err := j.read()
	isSame := slices.Equal(j.run.Command, run.Command) && j.run.Table == run.Table
	switch {
	case err != nil:
	case !j.begun || j.done == j.listed:
		// There is nothing to continue: the run is complete, or it has not changed any instance yet.
		*j = journal{path: path, run: run, listed: -1, counts: map[outcome]int{}, ahead: map[int]bool{}, file: j.file}
		size, isNew = 0, true
	case !isSame:
		err = errOtherRun
	}
	if err == nil {
		err = j.file.Truncate(size) // The last line may be incomplete.
	}
	if err == nil {
		_, err = j.file.Seek(size, io.SeekStart)
	}
	if err == nil && isNew {
		err = j.write(run)
	}
	if err != nil {
		return j, false, errors.Join(err, j.close())
	}
	return j, isNew, nil
}

// read reads the file and returns the size of its complete lines.
func (j *journal) read() (size int64, err error) {
	reader := bufio.NewReader(j.file)
	for number := 0; ; number++ {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		if number == 0 {
			err = j.readRun(text)
		} else {
			err = j.readLine(text)
		}
		if err != nil {
			return 0, fmt.Errorf("reading %s, line %d: %w", j.path, number+1, err)
		}
		size += int64(len(text))
	}
}

// readRun reads the first line.
func (j *journal) readRun(text []byte) error {
	j.run = bulkRun{}
	if err := json.Unmarshal(text, &j.run); err != nil || j.run.Stamp == 0 || len(j.run.Command) == 0 {
		return fmt.Errorf("%w: expected a journal of bulk, got another file: choose another --journal", errUsage)
	}
	return nil
}

func (j *journal) readLine(text []byte) error {
	var line journalLine
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	switch {
	case line.Listed != nil:
		j.listed = *line.Listed
	case line.Begun:
		j.begun = true
	case line.Done != nil:
		j.advance(*line.Done, line.Outcome)
	}
	return nil
}

// advance counts the outcome of the instance at position `number` of the list.
func (j *journal) advance(number int, result outcome) {
	j.counts[result]++
	for j.ahead[number] = true; j.ahead[j.done]; j.done++ {
		delete(j.ahead, j.done)
	}
}

func (j *journal) write(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	return err
}

// choose appends a chosen instance. The method end marks the list as complete.
func (j *journal) choose(instance string) error { return j.write(journalLine{Instance: instance}) }

func (j *journal) end(listed int) error {
	j.listed = listed
	return j.write(journalLine{Listed: &listed})
}

// begin records that instances may be changed from now on.
func (j *journal) begin() error {
	if j.begun {
		return nil
	}
	j.begun = true
	return j.write(journalLine{Begun: true})
}

// finish stores the outcome of an instance.
func (j *journal) finish(number int, result outcome, reason string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.advance(number, result)
	return j.write(journalLine{Done: &number, Outcome: result, Error: reason})
}

// chosen is an instance of the list, and its position.
type chosen struct {
	number   int
	instance string
}

// rest yields the chosen instances that have no outcome yet, in the order of the list.
func (j *journal) rest() iter.Seq2[chosen, error] {
	j.mu.Lock()
	done, ahead := j.done, maps.Clone(j.ahead)
	j.mu.Unlock()
	return func(yield func(chosen, error) bool) {
		file, err := os.Open(j.path)
		if err != nil {
			yield(chosen{}, err)
			return
		}
		defer file.Close()
		lines := json.NewDecoder(bufio.NewReader(file))
		err = lines.Decode(&bulkRun{})
		for number := range j.listed {
			var line journalLine
			if err == nil {
				err = lines.Decode(&line)
			}
			if err == nil && (number < done || ahead[number]) {
				continue
			}
			if !yield(chosen{number, line.Instance}, err) || err != nil {
				return
			}
		}
	}
}

func (j *journal) close() error { return j.file.Close() }
