package upload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrObjectCreated is returned by FromObjectCreated if the payload is not an EventBridge event about a sales or
// warehouse file. A retry does not help.
var ErrObjectCreated = errors.New("not the upload of a sales or warehouse file")

// objectCreated has the fields of EventBridge's event that FromObjectCreated uses (Amazon S3 User Guide, "EventBridge
// event message structure").
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

// FromObjectCreated maps S3's event "Object Created", unmodified from EventBridge, to an instance ID and the event to
// send to this instance. All events about one upload have the same $id, which may serve as deduplication ID. Errors
// wrap ErrObjectCreated.
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

// uploadID identifies one upload. It is a hash, because a key may be longer than an ID.
func (f File) uploadID() string {
	hash := sha256.Sum256([]byte(f.Bucket + "/" + f.Key + "/" + f.Sequencer))
	return hex.EncodeToString(hash[:16])
}
