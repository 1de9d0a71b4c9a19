package scheduler

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// The collections at the start of API paths.
const (
	schedulesPath = "/schedules"
	groupsPath    = "/schedule-groups"
	tagsPath      = "/tags"
)

// operation is an API operation, identified by method and path.
type operation struct {
	name, method, collection string
	// item is set if the path ends with the name or ARN of one item of the collection.
	item bool
	// query lists the operation's query parameters.
	query   []string
	perform func(m *Model, now time.Time, r *request) (any, *wire.Error)
}

// request is one call before decoding.
type request struct {
	operation string
	item      string
	query     url.Values
	body      []byte
}

var operations = []operation{
	{"CreateSchedule", http.MethodPost, schedulesPath, true, nil, (*Model).createSchedule},
	{"GetSchedule", http.MethodGet, schedulesPath, true, []string{"groupName"}, (*Model).getSchedule},
	{"UpdateSchedule", http.MethodPut, schedulesPath, true, nil, (*Model).updateSchedule},
	{"DeleteSchedule", http.MethodDelete, schedulesPath, true, []string{"clientToken", "groupName"}, (*Model).deleteSchedule},
	{"ListSchedules", http.MethodGet, schedulesPath, false, []string{"MaxResults", "NamePrefix", "NextToken", "ScheduleGroup", "State"}, (*Model).listSchedules},
	{"CreateScheduleGroup", http.MethodPost, groupsPath, true, nil, (*Model).createGroup},
	{"GetScheduleGroup", http.MethodGet, groupsPath, true, nil, (*Model).getGroup},
	{"DeleteScheduleGroup", http.MethodDelete, groupsPath, true, []string{"clientToken"}, (*Model).deleteGroup},
	{"ListScheduleGroups", http.MethodGet, groupsPath, false, []string{"MaxResults", "NamePrefix", "NextToken"}, (*Model).listGroups},
	{"TagResource", http.MethodPost, tagsPath, true, nil, (*Model).tagResource},
	{"UntagResource", http.MethodDelete, tagsPath, true, []string{"TagKeys"}, (*Model).untagResource},
	{"ListTagsForResource", http.MethodGet, tagsPath, true, nil, (*Model).listTags},
}

// Serves reports whether a path belongs to Scheduler's API.
func Serves(path string) bool {
	for _, collection := range []string{schedulesPath, groupsPath, tagsPath} {
		if path == collection || strings.HasPrefix(path, collection+"/") {
			return true
		}
	}
	return false
}

// Operation returns the name of the operation for a method and a path, such as "CreateSchedule". It returns false if
// the operation does not exist.
func Operation(method, path string) (name string, ok bool) {
	found, _ := route(method, path)
	if found == nil {
		return "", false
	}
	return found.name, true
}

// route returns the operation, and the item in the path. The path is unescaped. An ARN in the path of a tag call may
// contain slashes.
func route(method, path string) (*operation, string) {
	for i := range operations {
		o := &operations[i]
		item, isItem := strings.CutPrefix(path, o.collection+"/")
		if o.method == method && o.item == isItem && (isItem || path == o.collection) {
			return o, item
		}
	}
	return nil, ""
}

// Serve performs one call. The path is unescaped. The body and the answer are JSON.
func (m *Model) Serve(now time.Time, method, path string, query url.Values, body []byte) ([]byte, *wire.Error) {
	o, item := route(method, path)
	if o == nil {
		err := wire.Errorf("UnknownOperationException", "awslocal does not support the Scheduler operation %s %s.", method, path)
		err.Status = http.StatusNotFound
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(o.query, name) {
			return nil, validation("awslocal does not support the query parameter %q of %s; leave it out.", name, o.name)
		}
	}
	m.forgetTokens(now)
	answer, err := o.perform(m, now, &request{operation: o.name, item: item, query: query, body: body})
	if err != nil {
		return nil, err
	}
	return wire.Encode(answer), nil
}
