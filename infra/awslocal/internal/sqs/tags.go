package sqs

import (
	"maps"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// TagQueue adds tags to a queue. It replaces tags with the same key.
func (m *Model) TagQueue(now time.Time, in *TagQueueInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	if len(in.Tags) == 0 {
		return Empty{}, missingParameter("Tags")
	}
	if q.tags == nil {
		q.tags = make(map[string]string)
	}
	maps.Copy(q.tags, in.Tags)
	q.noteQueue()
	return Empty{}, nil
}

// UntagQueue removes the tags with the given keys. It ignores unknown keys.
func (m *Model) UntagQueue(now time.Time, in *UntagQueueInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	if len(in.TagKeys) == 0 {
		return Empty{}, missingParameter("TagKeys")
	}
	for _, key := range in.TagKeys {
		delete(q.tags, key)
	}
	q.noteQueue()
	return Empty{}, nil
}

// ListQueueTags returns the tags of a queue.
func (m *Model) ListQueueTags(now time.Time, in *ListQueueTagsInput) (ListQueueTagsOutput, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return ListQueueTagsOutput{}, err
	}
	return ListQueueTagsOutput{Tags: maps.Clone(q.tags)}, nil
}
