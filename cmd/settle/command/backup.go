package command

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/itemjson"
)

type backupCommand struct {
	tableFlags
	Rate int `default:"2000" help:"How many items to read a second at most (${default})."`
}

// backupPageMax is the most items that one request reads.
const backupPageMax = 500

// itemTriesMax is the maximum number of attempts for one request of settle backup or settle import. At a high rate,
// throttling is expected.
const itemTriesMax = 10

// items returns a client that reads and writes whole items, and counts the reads.
func (f tableFlags) items(ctx context.Context, s *session) (meteredClient, error) {
	loaded, err := f.load(ctx, s)
	if err != nil {
		return meteredClient{}, err
	}
	loaded.Retryer = func() aws.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), itemTriesMax) }
	return meteredClient{dynamodb.NewFromConfig(loaded), &s.read}, nil
}

// Run writes a line for each item of the table.
func (c *backupCommand) Run(ctx context.Context, s *session) error {
	if err := checkRate(c.Rate); err != nil {
		return err
	}
	client, err := c.items(ctx, s)
	if err != nil {
		return err
	}
	progress, count := s.newProgress("item written", "items written"), 0
	defer progress.end()
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{
		TableName: &c.Table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(c.Rate, backupPageMax))),
	})
	for pages.HasMorePages() {
		begun := time.Now()
		page, err := pages.NextPage(ctx)
		if err != nil {
			return c.explain(s, fmt.Errorf("reading the items of table %s: the backup is incomplete: %w", c.Table, err))
		}
		for _, item := range page.Items {
			line, err := itemjson.Marshal(item)
			if err == nil {
				err = s.printf("%s\n", console.EscapeJSON(string(line)))
			}
			if err != nil {
				return fmt.Errorf("writing the output: %w", err)
			}
			progress.add()
		}
		count += len(page.Items)
		if pages.HasMorePages() {
			pause(ctx, time.Duration(len(page.Items))*time.Second/time.Duration(c.Rate)-time.Since(begun))
		}
	}
	progress.end()
	s.note("%s of table %s, complete.", counted(count, "item", "items"), c.Table)
	return nil
}

// pause waits for the duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
