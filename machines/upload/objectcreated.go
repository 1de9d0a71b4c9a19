package upload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrObjectCreated is returned by FromObjectCreated when the payload is not an event of EventBridge that
// tells of a sales or warehouse file. Sending it again will not help.
var ErrObjectCreated = errors.New("not the upload of a sales or warehouse file")

// objectCreated is what FromObjectCreated reads of EventBridge's event (Amazon S3 User Guide,
// "EventBridge event message structure").
type objectCreated struct {
	Source     string    `json:"source"`
	DetailType string    `json:"detail-type"`
	Time       time.Time `json:"time"`
	Detail     struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key       string `json:"key"`
			Size      int64  `json:"size"`
			ETag      string `json:"etag"`
			VersionID string `json:"version-id"`
			Sequencer string `json:"sequencer"`
		} `json:"object"`
	} `json:"detail"`
}

// FromObjectCreated maps S3's event "Object Created" as EventBridge delivers it, unmodified, to the instance
// that it is about and the event to send there. The event's $id is the same however often the upload is told
// of, and may serve as deduplication ID. Errors wrap ErrObjectCreated.
func FromObjectCreated(payload []byte) (instanceID string, event json.RawMessage, err error) {
	var created objectCreated
	if err := json.Unmarshal(payload, &created); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrObjectCreated, err)
	}
	if created.Source != "aws.s3" || created.DetailType != "Object Created" {
		return "", nil, fmt.Errorf(`%w: expected the source aws.s3 and the detail-type "Object Created", got %q and %q`, ErrObjectCreated, created.Source, created.DetailType)
	}
	file := created.file()
	kind, correlation, err := parseKey(file.Key)
	if err == nil {
		err = file.validate(kind)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrObjectCreated, err)
	}
	event, err = json.Marshal(struct {
		Type string `json:"type"`
		ID   string `json:"$id"`
		File
	}{kind + "_uploaded", file.uploadID(), file})
	if err != nil {
		return "", nil, fmt.Errorf("encoding the event %s_uploaded: %w", kind, err)
	}
	return correlation, event, nil
}

func (o objectCreated) file() File {
	return File{
		Bucket: o.Detail.Bucket.Name, Key: o.Detail.Object.Key, VersionID: o.Detail.Object.VersionID, ETag: o.Detail.Object.ETag,
		Size: o.Detail.Object.Size, Sequencer: o.Detail.Object.Sequencer, CreatedAt: o.Time.UTC(),
	}
}

// uploadID names one upload: the hash of what tells it from all others. A key may be longer than an ID.
func (f File) uploadID() string {
	hash := sha256.Sum256([]byte(f.Bucket + "/" + f.Key + "/" + f.Sequencer))
	return hex.EncodeToString(hash[:16])
}
