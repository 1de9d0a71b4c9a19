package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/internal/itemjson"
)

type importCommand struct {
	tableFlags
	Files     []string `arg:"" name:"file" help:"The files of settle backup, or of a full export of DynamoDB to S3. They may be compressed with gzip. - is standard input."`
	Rate      int      `default:"500" help:"How many items to write a second at most (${default})."`
	Overwrite bool     `help:"Replace items of the table that differ."`
	DryRun    bool     `help:"Compare the items with the table, and write nothing."`
	Yes       bool     `short:"y" help:"Do not ask for confirmation."`
	outputFlag
}

// importReport is the JSON output of import.
type importReport struct {
	DryRun bool `json:"dry_run,omitempty"`
	// Items counts the items read. Each item also counts as written, present or different.
	Items int64 `json:"items"`
	// Written counts the items that the table did not have.
	Written int64 `json:"written"`
	// Present counts the items that the table already has with the same attributes.
	Present int64 `json:"present"`
	// Different counts the items that the table has with other attributes. Overwritten counts those that were replaced.
	Different   int64 `json:"different"`
	Overwritten int64 `json:"overwritten"`
	// Unreadable counts the lines without an item.
	Unreadable int64 `json:"unreadable"`
}

// importing is one run of settle import. It is safe for concurrent use.
type importing struct {
	*importCommand
	session  *session
	client   meteredClient
	progress *progress
	noting   sync.Mutex

	items, written, present, different, overwritten, unreadable, bytes atomic.Int64
	// bytesMax is the size of the files; 0 if it is unknown.
	bytesMax int64
}

// Run writes the items of the files into the table.
func (c *importCommand) Run(ctx context.Context, s *session) error {
	if err := checkRate(c.Rate); err != nil {
		return err
	}
	bytesMax, err := c.size()
	if err != nil {
		return err
	}
	r := &importing{importCommand: c, session: s, bytesMax: bytesMax}
	if r.client, err = c.tableFlags.items(ctx, s); err != nil {
		return err
	}
	if !c.Yes && !c.DryRun {
		what := "Import into table %s?"
		if c.Overwrite {
			what = "Import into table %s, and replace items that differ?"
		}
		if err := s.confirm(ctx, fmt.Sprintf(what, c.Table), "nothing was imported"); err != nil {
			return err
		}
	}
	r.progress = s.newTask("starting")
	defer r.progress.end()
	err = inParallel(ctx, r.lines(ctx), r.write)
	r.progress.end()
	failure := r.failure(ctx, err)
	if failure != nil && r.items.Load() == 0 {
		return failure
	}
	return errors.Join(r.report(), failure)
}

// size returns the size of all files in bytes, or 0 if one is standard input.
func (c *importCommand) size() (bytes int64, err error) {
	isUnknown := false
	for _, name := range c.Files {
		if name == "-" {
			isUnknown = true
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errNotFound, err)
		}
		bytes += info.Size()
	}
	if isUnknown && !c.Yes && !c.DryRun {
		return 0, fmt.Errorf("%w: expected --yes, because the items come from standard input", errUsage)
	}
	if isUnknown {
		return 0, nil
	}
	return bytes, nil
}

// unreadableMax is the maximum number of lines without an item that a run accepts.
const unreadableMax = 100

// lines yields the items of the files, at a bounded rate.
func (r *importing) lines(ctx context.Context) iter.Seq2[itemjson.Item, error] {
	return func(yield func(itemjson.Item, error) bool) {
		ticker := time.NewTicker(time.Second / time.Duration(r.Rate))
		defer ticker.Stop()
		for _, name := range r.Files {
			for line, err := range r.session.itemLines(name, r) {
				if ctx.Err() != nil {
					return
				}
				if err == nil && r.unreadable.Load() > unreadableMax {
					err = fmt.Errorf("line %d: more than %d lines have no item: expected a backup", line.Number, unreadableMax)
				}
				if err != nil {
					yield(nil, fmt.Errorf("reading %s: %w", name, err))
					return
				}
				if _, isNamed := line.Item["instance"].(*types.AttributeValueMemberS); line.Err == nil && !isNamed {
					line.Err = errors.New(`expected an item with the key "instance", a string: it is not from a table of Settle`)
				}
				if line.Err != nil {
					r.unreadable.Add(1)
					r.note("%s: %s, line %d: %s", r.session.name(), name, line.Number, oneLine(line.Err))
					continue
				}
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
				if !yield(line.Item, nil) {
					return
				}
			}
		}
	}
}

// Write adds the length of p to the number of bytes imported, which the progress bar shows.
func (r *importing) Write(p []byte) (int, error) {
	r.bytes.Add(int64(len(p)))
	return len(p), nil
}

// note prints a line on standard error.
func (r *importing) note(format string, args ...any) {
	r.noting.Lock()
	defer r.noting.Unlock()
	r.session.note(format, args...)
}

// write writes an item that the table does not have. With --overwrite, it also replaces an item that differs.
func (r *importing) write(ctx context.Context, item itemjson.Item) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The caller reports the cause.
	}
	stored, err := r.put(ctx, item)
	name := item["instance"].(*types.AttributeValueMemberS).Value
	if err != nil {
		return fmt.Errorf("writing %s to table %s: %w", name, r.Table, err)
	}
	switch {
	case len(stored) == 0:
		r.written.Add(1)
	case itemjson.Equal(stored, item):
		r.present.Add(1)
	case r.Overwrite && !r.DryRun:
		isDone, err := r.overwrite(ctx, item, stored)
		if err != nil {
			return fmt.Errorf("overwriting %s in table %s: %w", name, r.Table, err)
		}
		r.different.Add(1)
		if isDone {
			r.overwritten.Add(1)
		} else {
			r.note("%s: %s was written meanwhile, and stays: stop the consumer, then import again", r.session.name(), name)
		}
	default:
		r.different.Add(1)
		r.note("%s: the table has another item %s", r.session.name(), name)
	}
	text := counted(int(r.items.Add(1)), "item", "items")
	if r.bytesMax > 0 {
		text += fmt.Sprintf(", %d%%", 100*min(r.bytes.Load(), r.bytesMax)/r.bytesMax)
	}
	r.progress.say(text)
	return nil
}

// put writes an item. If the table already has an item with this key, put writes nothing and returns that item. In a
// dry run, it only reads.
func (r *importing) put(ctx context.Context, item itemjson.Item) (stored itemjson.Item, err error) {
	if r.DryRun {
		output, err := r.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.Table, Key: itemjson.Item{"instance": item["instance"]}, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return nil, err
		}
		return output.Item, nil
	}
	_, err = r.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &r.Table, Item: item,
		ConditionExpression: aws.String("attribute_not_exists(#instance)"), ExpressionAttributeNames: map[string]string{"#instance": "instance"},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var exists *types.ConditionalCheckFailedException
	if errors.As(err, &exists) {
		return exists.Item, nil
	}
	return nil, err
}

// overwrite replaces the stored item, unless it is an instance that has changed since import read it. The condition
// also refuses a late request: the SDK may repeat a request, and the first one may arrive after a further change.
func (r *importing) overwrite(ctx context.Context, item, stored itemjson.Item) (isDone bool, err error) {
	input := &dynamodb.PutItemInput{TableName: &r.Table, Item: item}
	if stored["revision"] != nil && stored["updated_at"] != nil {
		input.ConditionExpression = aws.String("#revision = :revision AND #updated_at = :updated_at")
		input.ExpressionAttributeNames = map[string]string{"#revision": "revision", "#updated_at": "updated_at"}
		input.ExpressionAttributeValues = itemjson.Item{":revision": stored["revision"], ":updated_at": stored["updated_at"]}
		input.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, err = r.client.PutItem(ctx, input)
	var changed *types.ConditionalCheckFailedException
	if errors.As(err, &changed) {
		return itemjson.Equal(changed.Item, item), nil // The SDK may have repeated a write whose answer was lost.
	}
	return err == nil, err
}

// report prints the counts.
func (r *importing) report() error {
	report := importReport{
		r.DryRun, r.items.Load(), r.written.Load(), r.present.Load(), r.different.Load(), r.overwritten.Load(), r.unreadable.Load(),
	}
	return r.answer(r.session, report, func() error {
		written, overwritten := "written", "overwritten"
		if r.DryRun {
			written, overwritten = "to write", "to overwrite"
		}
		different := fmt.Sprintf("%d different", report.Different)
		if r.Overwrite {
			different = fmt.Sprintf("%d %s", report.Different, overwritten)
		}
		return r.session.printf("%s: %d %s, %d already there, %s, %d unreadable.\n", counted(int(report.Items), "item", "items"),
			report.Written, written, report.Present, different, report.Unreadable)
	})
}

// failure returns the error of the run.
func (r *importing) failure(ctx context.Context, err error) error {
	switch {
	case err != nil && r.DryRun:
		return r.explain(r.session, stopped(ctx, err))
	case err != nil:
		return fmt.Errorf("%w; repeat the command to continue: it skips the items that are already there", r.explain(r.session, stopped(ctx, err)))
	case r.unreadable.Load() > 0:
		return fmt.Errorf("%s no item: look for a complete backup", counted(int(r.unreadable.Load()), "line has", "lines have"))
	case r.different.Load() > 0 && !r.Overwrite:
		return fmt.Errorf("%s in table %s: nothing of them was changed. To replace them, repeat the command with --overwrite",
			counted(int(r.different.Load()), "item differs", "items differ"), r.Table)
	default:
		return nil
	}
}
