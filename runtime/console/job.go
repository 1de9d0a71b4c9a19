package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// jobRate is the maximum number of instances that a job changes per second. It is also the default of settle bulk.
	jobRate = 25
	// jobsMax limits the jobs that a console remembers, and failuresMax limits the failures that a job lists.
	jobsMax, failuresMax = 20, 100
	// jobReasonBytesMax limits the reason of a job, to which the job adds its number.
	jobReasonBytesMax = reasonBytesMax - 32
)

// jobs are the bulk operations of a console, the newest first. Only the newest may run.
type jobs struct {
	mu  sync.Mutex
	all []*job
}

// job applies an operation to one instance after another.
type job struct {
	op   instances.Operation
	stop context.CancelFunc

	mu sync.Mutex
	jobData
}

// jobData is the progress of a job.
type jobData struct {
	selection
	// Number identifies the job. It is the start time in microseconds since 1970, like the stamp of a run of settle
	// bulk, and always higher than the number of the previous job.
	Number    int64
	Operation operation
	To        string
	Reason    string
	Total     int
	// Changed, Skipped and Failed count the finished instances. Failures are the first failed ones.
	Changed, Skipped, Failed int
	Failures                 []failure
	// Begun is the time when the job was started. Ended is the zero time while the job runs. Problem says why the job
	// ended before its last instance, or is empty.
	Begun, Ended time.Time
	Problem      string
	// Left is the approximate time that the remaining instances take.
	Left time.Duration

	// started is the time when the job was started. took is the time from then until its last finished instance. Both
	// use the clock of the process instead of Config.Now, because that clock sets the pace of the job.
	started time.Time
	took    time.Duration
}

// failure is an instance that could not be changed.
type failure struct{ Name, Error string }

// Finished counts the instances that were changed, were skipped or failed.
func (d jobData) Finished() int { return d.Changed + d.Skipped + d.Failed }

// Say returns the text that a screen reader announces: one text for each tenth of the job, and one for its end.
func (d jobData) Say() string {
	if d.Ended.IsZero() {
		return fmt.Sprintf("%d percent done.", 100*d.Finished()/d.Total/10*10)
	}
	return fmt.Sprintf("The job has ended: %d changed, %d skipped, %d failed.", d.Changed, d.Skipped, d.Failed)
}

// timeFor returns the time that a job takes for `count` instances at jobRate.
func timeFor(count int) time.Duration { return time.Duration(count) * time.Second / jobRate }

// progress returns the current progress.
func (j *job) progress() jobData {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.jobData
	if left := d.Total - d.Finished(); d.Ended.IsZero() {
		d.Left = timeFor(left)
		if d.Finished() > 0 {
			d.Left = max(d.Left, d.took/time.Duration(d.Finished())*time.Duration(left))
		}
	}
	return d
}

// running returns the running job, or nil. The newest job comes first in `jobs`.
func running(jobs []jobData) *jobData {
	if len(jobs) > 0 && jobs[0].Ended.IsZero() {
		return &jobs[0]
	}
	return nil
}

// list returns the progress of all jobs, the newest first.
func (j *jobs) list() (all []jobData) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		all = append(all, one.progress())
	}
	return all
}

// find returns the job with the number, or nil.
func (j *jobs) find(number string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		if strconv.FormatInt(one.Number, 10) == number {
			return one
		}
	}
	return nil
}

// startJob starts a job and returns its number, or 0 if another job is running.
func (c *console) startJob(data *bulkData, ids []instances.ID) (number int64) {
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	begun := c.Now().UTC()
	number = begun.UnixMicro()
	if len(c.jobs.all) > 0 {
		newest := c.jobs.all[0].progress()
		if newest.Ended.IsZero() {
			return 0
		}
		number = max(number, newest.Number+1)
	}
	ctx, stop := context.WithCancel(c.Write.Context)
	j := &job{op: data.op, stop: stop, jobData: jobData{
		selection: data.selection, Number: number, Operation: data.Operation, To: data.To, Reason: data.Reason,
		Total: len(ids), Begun: begun, started: time.Now(),
	}}
	j.op.Reason = strings.TrimSpace(fmt.Sprintf("%s (bulk %d)", data.Reason, number))
	c.jobs.all = append([]*job{j}, c.jobs.all[:min(len(c.jobs.all), jobsMax-1)]...)
	go c.runJob(ctx, j, ids)
	return number
}

// runJob changes the instances of a job until ctx ends. It stops early if AWS denies a change, because it would deny the
// other changes too.
func (c *console) runJob(ctx context.Context, j *job, ids []instances.ID) {
	defer j.stop()
	ticker := time.NewTicker(time.Second / jobRate)
	defer ticker.Stop()
	problem := ""
	for _, id := range ids {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			problem = "The job was stopped."
			break
		}
		err := c.changeOne(j, id)
		j.count(id, err)
		if errors.Is(err, durable.ErrDenied) {
			problem = "AWS denies the changes. See the failure, and check the permissions of the console."
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Ended, j.Problem = c.Now().UTC(), problem
}

// errSkipped is returned by changeOne for an instance that no longer matches.
var errSkipped = errors.New("the instance no longer matches")

// changeOne changes an instance if it still matches. Stopping the job does not interrupt the change.
func (c *console) changeOne(j *job, id instances.ID) (err error) {
	defer func() { // A machine's own decoder may panic.
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	op := j.op
	op.At = c.Now().UTC()
	_, err = c.operator().Change(ctx, id, 0, func(record instances.Record) (instances.Operation, error) {
		if record.Revision == 0 || !c.selects(j.selection, record) || skips(op, record) {
			return op, errSkipped
		}
		return op, nil
	})
	return err
}

// count adds the result for an instance.
func (j *job) count(id instances.ID, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.took = time.Since(j.started)
	switch {
	case err == nil:
		j.Changed++
		return
	case errors.Is(err, errSkipped):
		j.Skipped++
		return
	}
	text := err.Error() + "."
	if errors.Is(err, operations.ErrNotWoken) {
		text = "The change is stored, but " + text + " Run settle resume " + id.String() + "."
	}
	if j.Failed++; j.Failed <= failuresMax {
		j.Failures = append(j.Failures, failure{id.String(), text})
	}
}

// isJob reports whether the segments are the address of a job.
func (c *console) isJob(segments []string) bool {
	return len(segments) == 2 && segments[0] == "jobs" && c.Operates()
}

// jobURL returns the address of the job with the number.
func (c *console) jobURL(number int64) string {
	return c.Prefix + "/jobs/" + strconv.FormatInt(number, 10)
}

// jobPage shows the progress of a job. It reads no table.
func (c *console) jobPage(_ context.Context, number string) (*page, error) {
	j := c.jobs.find(number)
	if j == nil {
		return nil, errNoJob
	}
	return &page{Name: "job", Title: "Bulk operation", Data: j.progress(), Parts: []string{"job-say", "job-progress", "job-stop", "job-failures"}}, nil
}

// postJob stops a job. The job first finishes its current instance.
func (c *console) postJob(_ context.Context, number string, form url.Values) (answer, error) {
	j := c.jobs.find(number)
	switch {
	case j == nil:
		return answer{}, errNoJob
	case form.Get("do") != "stop":
		return answer{}, &problem{http.StatusBadRequest, "The form cannot be read.", fmt.Sprintf("Expected stop, got %q. The job runs on.", form.Get("do"))}
	}
	j.stop()
	return answer{location: c.jobURL(j.Number)}, nil
}

// errNoJob is the page for a job that this console does not remember.
var errNoJob = notFound("There is no such job.", fmt.Sprintf("A job ends with the console's process, and the console remembers the last %d. To continue it, start the same operation again.", jobsMax))
