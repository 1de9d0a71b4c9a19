package tour

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// uploaded plays a month whose sales file arrives before its warehouse file, which is corrected later.
func (p *player) uploaded() []end {
	p.title("Two dependent files, in the wrong order",
		"The sales file needs the warehouse file of its month. S3 may report a file twice, and a file may",
		fmt.Sprintf("be corrected while the window is open: %s here, 14 days outside this demo.", console.Span(p.config.UploadWindow)))
	month := time.Now().UTC().Format("2006_01")
	instance := "upload/" + month
	workflows := []struct{ name, waits, arn string }{{name: "upload-warehouse", waits: upload.WaitWarehouse}, {name: "upload-sales", waits: upload.WaitSales}}
	for i := range workflows {
		w := &workflows[i]
		w.arn = p.startWorkflow(w.name, instance, nil)
		p.taskWaits(instance, w.waits)
	}
	var executions []execution
	const processed, correlated = "open.warehouse.processed", "open.sales.processed"
	for _, file := range []struct {
		kind, etag, sequencer, note string
		states                      []string
	}{
		{"sales", "b1946ac9", "0061", "", []string{"open.warehouse.awaited", "open.sales.held"}},
		{"sales", "b1946ac9", "0061", "reported again: dropped", nil},
		{"warehouse", "0f343b09", "0062", "", []string{processed, correlated}},
		{"warehouse", "591785b7", "0063", "corrected", []string{processed, correlated}},
	} {
		if file.note == "corrected" {
			for _, w := range workflows {
				e := p.ended(w.name, w.arn, w.waits, "Outcome", "Processed")
				executions = append(executions, e)
			}
			p.say("   Both executions have ended. The window is still open.")
		}
		p.objectCreated(file.kind, month, file.etag, file.sequencer, file.note)
		if file.states == nil {
			continue
		}
		p.await(instance, "", file.states...)
	}
	p.await(instance, "after window", "completed")
	p.showEnd(instance, executions...)
	return []end{{instance, []string{"completed"}}}
}

// objectCreated builds the EventBridge event of a file and queues it as functions/objects does.
func (p *player) objectCreated(kind, month, etag, sequencer, note string) {
	bucket, key := kind+"-uploads", kind+"_"+month+".csv"
	created := p.json(map[string]any{
		"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "Object Created", "source": "aws.s3",
		"account": "111122223333", "time": time.Now().UTC().Truncate(time.Second), "region": "us-east-1", "resources": []string{"arn:aws:s3:::" + bucket},
		"detail": map[string]any{
			"version": "0", "bucket": map[string]any{"name": bucket}, "reason": "PutObject",
			"object": map[string]any{"key": key, "size": 5, "etag": etag, "sequencer": sequencer},
		},
	})
	id, event, err := upload.FromObjectCreated(created)
	p.check(err)
	p.seen.hold()
	defer p.seen.release()
	hash := sha256.Sum256(event)
	queue := sqsqueue.New(sqs.NewFromConfig(p.stack.AWS()), p.stack.QueueURL(), "")
	_, err = queue.Send(p.ctx, durable.Message{
		To: durable.InstanceID{Machine: "upload", ID: id}, Body: event, DeduplicationID: hex.EncodeToString(hash[:]),
	})
	p.check(err, "queueing the upload of "+key)
	if note != "" {
		note = "  " + p.config.Style.Dim("("+note+")")
	}
	p.say("   %s s3://%s/%s  etag %s%s", p.config.Style.Bold("Object Created"), bucket, key, etag, note)
}
