package scheduler

import (
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// tagsMax is the maximum number of tags of a call and of a group.
const tagsMax = 200

func checkTags(tags []tag) *wire.Error {
	if len(tags) > tagsMax {
		return validation("1 validation error detected: Value at 'tags' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", tagsMax)
	}
	for _, t := range tags {
		if err := checkLength("tags.key", t.Key, 1, 128); err != nil {
			return err
		}
		if err := checkLength("tags.value", t.Value, 1, 256); err != nil {
			return err
		}
	}
	return nil
}

// setTags adds tags. It replaces tags with the same key.
func (g *group) setTags(tags []tag) {
	for _, t := range tags {
		if i := slices.IndexFunc(g.tags, func(o tag) bool { return o.Key == t.Key }); i >= 0 {
			g.tags[i] = t
		} else {
			g.tags = append(g.tags, t)
		}
	}
}

// tagged returns the group whose ARN is in the path. Only groups have tags.
func (m *Model) tagged(r *request) (*group, *wire.Error) {
	name, ok := strings.CutPrefix(r.item, groupARN(""))
	if !ok || checkName("name", name) != nil {
		return nil, validation("expected resourceArn to be the ARN of a schedule group, %s..., got %q.", groupARN(""), r.item)
	}
	g, ok := m.groups.Get(name)
	if !ok {
		return nil, noSuchGroup(name)
	}
	return g, nil
}

func (m *Model) tagResource(now time.Time, r *request) (any, *wire.Error) {
	var in tagsInput
	if err := wire.Decode(r.body, &in, "ValidationException"); err != nil {
		return nil, err
	}
	if in.Tags == nil {
		return nil, missing("tags")
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	g, err := m.tagged(r)
	if err != nil {
		return nil, err
	}
	g.setTags(in.Tags)
	m.retagged(now, g)
	return empty{}, nil
}

func (m *Model) untagResource(now time.Time, r *request) (any, *wire.Error) {
	keys := r.query["TagKeys"]
	if len(keys) == 0 {
		return nil, missing("tagKeys")
	}
	g, err := m.tagged(r)
	if err != nil {
		return nil, err
	}
	g.tags = slices.DeleteFunc(g.tags, func(t tag) bool { return slices.Contains(keys, t.Key) })
	m.retagged(now, g)
	return empty{}, nil
}

func (m *Model) retagged(now time.Time, g *group) {
	g.modifiedAt = now.UTC()
	m.touched.Note(groupRecords + g.name)
}

func (m *Model) listTags(_ time.Time, r *request) (any, *wire.Error) {
	g, err := m.tagged(r)
	if err != nil {
		return nil, err
	}
	return tagsOutput{append([]tag{}, g.tags...)}, nil
}
