package scheduler

import (
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// group is one schedule group.
type group struct {
	name                  string
	createdAt, modifiedAt time.Time
	tags                  []tag // in the order in which their keys were added
}

// pageMax is the maximum and default page size of list calls.
const pageMax = 100

// page selects part of a list.
type page struct {
	prefix string // the prefix of the names
	token  string // first key of the page
	most   int
}

func readPage(r *request) (page, *wire.Error) {
	p := page{prefix: r.query.Get("NamePrefix"), token: r.query.Get("NextToken"), most: pageMax}
	if p.prefix != "" {
		if err := checkName("namePrefix", p.prefix); err != nil {
			return page{}, err
		}
	}
	if !r.query.Has("MaxResults") {
		return p, nil
	}
	most, err := strconv.Atoi(r.query.Get("MaxResults"))
	if err != nil {
		return page{}, wire.Errorf("SerializationException", "expected MaxResults to be a number, got %q", r.query.Get("MaxResults"))
	}
	p.most = most
	return p, checkRange("maxResults", most, 1, pageMax)
}

// resolveGroup returns an error if the group does not exist. It replaces an empty name by the name of the default
// group.
func (m *Model) resolveGroup(name *string) *wire.Error {
	if *name == "" {
		*name = defaultGroup
	}
	if err := checkName("groupName", *name); err != nil {
		return err
	}
	if _, ok := m.groups.Get(*name); !ok {
		return noSuchGroup(*name)
	}
	return nil
}

func (m *Model) createGroup(now time.Time, r *request) (any, *wire.Error) {
	var in groupInput
	if err := wire.Decode(r.body, &in, "ValidationException"); err != nil {
		return nil, err
	}
	if err := checkName("name", r.item); err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	return m.once(now, r, in.ClientToken, func() (any, *wire.Error) {
		if _, exists := m.groups.Get(r.item); exists {
			return nil, conflict("Schedule group %s already exists.", r.item)
		}
		g := &group{name: r.item, createdAt: now.UTC(), modifiedAt: now.UTC()}
		g.setTags(in.Tags)
		m.groups.Set(r.item, g)
		m.touched.Note(groupRecords + r.item)
		return createGroupOutput{groupARN(r.item)}, nil
	})
}

func (g *group) output() groupOutput {
	return groupOutput{
		Arn: groupARN(g.name), Name: g.name, State: "ACTIVE",
		CreationDate: epoch(g.createdAt), LastModificationDate: epoch(g.modifiedAt),
	}
}

func (m *Model) getGroup(_ time.Time, r *request) (any, *wire.Error) {
	if err := checkName("name", r.item); err != nil {
		return nil, err
	}
	g, ok := m.groups.Get(r.item)
	if !ok {
		return nil, noSuchGroup(r.item)
	}
	return g.output(), nil
}

// deleteGroup deletes a group and its schedules at once. AWS takes some time, during which the group has the state
// DELETING.
func (m *Model) deleteGroup(now time.Time, r *request) (any, *wire.Error) {
	return m.once(now, r, r.query.Get("clientToken"), func() (any, *wire.Error) {
		if err := checkName("name", r.item); err != nil {
			return nil, err
		}
		if r.item == defaultGroup {
			return nil, validation("The schedule group %s cannot be deleted.", defaultGroup)
		}
		if _, ok := m.groups.Get(r.item); !ok {
			return nil, noSuchGroup(r.item)
		}
		var members []*schedule
		for _, s := range m.schedules.From(scheduleKey(r.item, "")) {
			if s.group != r.item {
				break
			}
			members = append(members, s)
		}
		for _, s := range members {
			m.removeSchedule(s)
		}
		m.groups.Delete(r.item)
		m.touched.Note(groupRecords + r.item)
		return empty{}, nil
	})
}

// listGroups lists groups by name.
func (m *Model) listGroups(_ time.Time, r *request) (any, *wire.Error) {
	page, err := readPage(r)
	if err != nil {
		return nil, err
	}
	out := listGroupsOutput{ScheduleGroups: []groupOutput{}}
	for name, g := range m.groups.From(max(page.prefix, page.token)) {
		if !strings.HasPrefix(name, page.prefix) {
			break
		}
		if len(out.ScheduleGroups) == page.most {
			out.NextToken = name
			break
		}
		out.ScheduleGroups = append(out.ScheduleGroups, g.output())
	}
	return out, nil
}
