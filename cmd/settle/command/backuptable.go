package command

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/internal/itemjson"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// itemLines yields the lines of a file that settle backup wrote. The name "-" means standard input. The bytes of any
// other file also go to `copied`.
func (s *session) itemLines(name string, copied io.Writer) iter.Seq2[itemjson.Line, error] {
	if name == "-" {
		return itemjson.Read(s.In)
	}
	return func(yield func(itemjson.Line, error) bool) {
		file, err := os.Open(name)
		if err != nil {
			yield(itemjson.Line{}, err)
			return
		}
		defer file.Close()
		for line, err := range itemjson.Read(io.TeeReader(file, copied)) {
			if !yield(line, err) {
				return
			}
		}
	}
}

// backupTable is a DynamoDB client for a table with the items of backup files. A store on this client can only list and
// commit.
type backupTable struct {
	dynamostore.Client

	next    func() (itemjson.Item, error, bool) // returns the items of the files one by one
	failure error                               // the error of next
	out     io.Writer                           // receives the line of each committed item
}

// backupTablePage is the number of items in a page of a backupTable.
const backupTablePage = 100

// newBackupTable returns a client that lists the items of the files. Call `stop` after the last use.
func newBackupTable(s *session, files []string) (table *backupTable, stop func()) {
	next, stop := iter.Pull2(func(yield func(itemjson.Item, error) bool) {
		for _, name := range files {
			for line, err := range s.itemLines(name, io.Discard) {
				if err == nil && line.Err != nil {
					err = fmt.Errorf("line %d: %w", line.Number, line.Err)
				}
				if err != nil {
					yield(nil, fmt.Errorf("%w: %s: %w", errUsage, name, err))
					return
				}
				if !yield(line.Item, nil) {
					return
				}
			}
		}
	})
	return &backupTable{next: next}, stop
}

// Scan returns the next items. It ignores the conditions of the request, but skips items that are not instances.
func (t *backupTable) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	page := &dynamodb.ScanOutput{}
	for len(page.Items) < backupTablePage {
		item, err, ok := t.next()
		if err != nil {
			t.failure = err
			return nil, err
		}
		if !ok {
			return page, nil
		}
		if _, isInstance := item["revision"]; isInstance {
			page.Items = append(page.Items, item)
		}
	}
	page.LastEvaluatedKey = itemjson.Item{"instance": page.Items[len(page.Items)-1]["instance"]}
	return page, nil
}

// PutItem writes the line of the item.
func (t *backupTable) PutItem(_ context.Context, input *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	line, err := itemjson.Marshal(input.Item)
	if err == nil {
		_, err = t.out.Write(append(line, '\n'))
	}
	return &dynamodb.PutItemOutput{}, err
}
