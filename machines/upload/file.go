package upload

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The kinds of files, as their names begin.
const (
	kindWarehouse = "warehouse"
	kindSales     = "sales"
)

// File is an object in S3: one version of one of the two files.
type File struct {
	Bucket string `json:"bucket"`
	// Key ends in the name of the file, such as sales_2026_11.csv. Folders before it mean nothing.
	Key string `json:"key"`
	// VersionID is that of the object in a bucket with versioning. Read this version: by the time that it
	// is read, there may be a newer one.
	VersionID string `json:"version_id,omitempty"`
	// ETag tells contents apart.
	ETag string `json:"etag"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Sequencer orders the uploads of one key: hexadecimal digits.
	Sequencer string `json:"sequencer"`
	// CreatedAt is when S3 says that the object was made, to the second.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// WarehouseFile is the payload of the event warehouse_uploaded.
type WarehouseFile struct{ File }

// Validate checks that it is a warehouse file. Like all of Validate's, its errors quote nothing.
func (f WarehouseFile) Validate() error { return f.validate(kindWarehouse) }

// SalesFile is the payload of the event sales_uploaded.
type SalesFile struct{ File }

// Validate checks that it is a sales file.
func (f SalesFile) Validate() error { return f.validate(kindSales) }

func (f File) validate(kind string) error {
	named, _, err := parseKey(f.Key)
	switch {
	case err != nil:
		return errName
	case named != kind:
		return fmt.Errorf("expected the name of a %s file, got that of a %s file", kind, named)
	case f.Bucket == "":
		return errors.New("expected the name of a bucket, got none")
	case f.ETag == "":
		return errors.New("expected an etag, got none")
	case !sequencer.MatchString(f.Sequencer):
		return fmt.Errorf("expected a sequencer of hexadecimal digits, got %d bytes that are none", len(f.Sequencer))
	default:
		return nil
	}
}

var (
	name      = regexp.MustCompile(`^(sales|warehouse)_([0-9]{4}_(?:0[1-9]|1[0-2]))\.[a-z0-9.]+$`)
	sequencer = regexp.MustCompile(`^[0-9A-Fa-f]+$`)
	errName   = errors.New("expected a file name of kind, year and month, such as sales_2026_11.csv or warehouse_2026_11.csv")
)

// parseKey reads the kind of a file from its key, and what correlates it with others.
func parseKey(key string) (kind, correlation string, err error) {
	base := key[strings.LastIndexByte(key, '/')+1:]
	parts := name.FindStringSubmatch(base)
	if parts == nil {
		return "", "", fmt.Errorf("%w, got %q", errName, base)
	}
	return parts[1], parts[2], nil
}

// follows reports whether the file is newer than another one, which may be none at all. The sequencers of
// one key tell it (Amazon S3 User Guide, "Event message structure": the shorter is padded with zeros on the
// right, then they compare as text). Files under different keys go by their time, and then by their names, so
// that whichever event comes last, the same file wins.
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
