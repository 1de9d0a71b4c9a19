package upload

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The kinds of files. File names start with them.
const (
	kindWarehouse = "warehouse"
	kindSales     = "sales"
)

// File is one version of a file in S3.
type File struct {
	Bucket string `json:"bucket"`
	// Key ends in the name of the file, such as sales_2026_11.csv. Folders are ignored.
	Key string `json:"key"`
	// VersionID is the object's version, in a bucket with versioning. Read this version, because there may already be
	// a newer one.
	VersionID string `json:"version_id,omitempty"`
	// ETag identifies the content.
	ETag string `json:"etag"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Sequencer orders the uploads of one key, in hexadecimal digits.
	Sequencer string `json:"sequencer"`
	// CreatedAt is the creation time according to S3, to the second.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// WarehouseFile is the payload of the event warehouse_uploaded.
type WarehouseFile struct{ File }

// Validate checks that the file is a warehouse file. Like all Validate methods, it quotes no input in its errors.
func (f WarehouseFile) Validate() error { return f.validate(kindWarehouse) }

// SalesFile is the payload of the event sales_uploaded.
type SalesFile struct{ File }

// Validate checks that the file is a sales file.
func (f SalesFile) Validate() error { return f.validate(kindSales) }

func (f File) validate(kind string) error {
	named, _, err := parseKey(f.Key)
	switch {
	case err != nil:
		return errName
	case named != kind:
		return fmt.Errorf("expected the name of a %s file, got the name of a %s file", kind, named)
	case f.Bucket == "":
		return errors.New("expected the name of a bucket, got none")
	case f.ETag == "":
		return errors.New("expected an etag, got none")
	case !sequencer.MatchString(f.Sequencer):
		return fmt.Errorf("expected a sequencer of hexadecimal digits, got %d bytes of something else", len(f.Sequencer))
	default:
		return nil
	}
}

var (
	name      = regexp.MustCompile(`^(sales|warehouse)_([0-9]{4}_(?:0[1-9]|1[0-2]))\.[a-z0-9.]+$`)
	sequencer = regexp.MustCompile(`^[0-9A-Fa-f]+$`)
	errName   = errors.New("expected a file name of kind, year and month, such as sales_2026_11.csv or warehouse_2026_11.csv")
)

// parseKey returns the kind of a file and its correlation ID, from its key.
func parseKey(key string) (kind, correlation string, err error) {
	base := key[strings.LastIndexByte(key, '/')+1:]
	parts := name.FindStringSubmatch(base)
	if parts == nil {
		return "", "", fmt.Errorf("%w, got %q", errName, base)
	}
	return parts[1], parts[2], nil
}

// follows reports whether the file is newer than `other`, which may be zero. For the same key, the sequencers decide
// (Amazon S3 User Guide, "Event message structure": pad the shorter with zeros on the right, then compare as text). For
// different keys, the times decide, and then the names. So the same file wins in any order of events.
func (f File) follows(other File) bool {
	if f.Bucket == other.Bucket && f.Key == other.Key {
		width := max(len(f.Sequencer), len(other.Sequencer))
		return padded(f.Sequencer, width) > padded(other.Sequencer, width)
	}
	return cmp.Or(f.CreatedAt.Compare(other.CreatedAt), strings.Compare(f.Bucket, other.Bucket), strings.Compare(f.Key, other.Key)) > 0
}

func padded(sequencer string, width int) string {
	return strings.ToUpper(sequencer) + strings.Repeat("0", width-len(sequencer))
}
