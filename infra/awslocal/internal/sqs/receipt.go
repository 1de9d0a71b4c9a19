package sqs

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// receipt is the content of a receipt handle: it identifies one receipt of one message.
type receipt struct {
	queue    uint64
	message  uint64
	receives uint32 // message.receives at this receipt
}

// receiptBytes is the length of a receipt with its checksum, before base64.
const receiptBytes = 8 + 8 + 4 + 8

// handle returns the receipt handle: base64 of the receipt and a checksum. The checksum distinguishes old handles
// from invalid ones.
func (r receipt) handle() string {
	b := make([]byte, 0, receiptBytes)
	b = binary.BigEndian.AppendUint64(b, r.queue)
	b = binary.BigEndian.AppendUint64(b, r.message)
	b = binary.BigEndian.AppendUint32(b, r.receives)
	b = binary.BigEndian.AppendUint64(b, r.sum())
	return base64.StdEncoding.EncodeToString(b)
}

func (r receipt) sum() uint64 { return mix(mix(mix(r.queue)^r.message) ^ uint64(r.receives)) }

// parseReceipt parses a receipt handle of q.
func parseReceipt(q *queue, handle string) (receipt, *wire.Error) {
	if handle == "" {
		return receipt{}, missingParameter("ReceiptHandle")
	}
	b, err := base64.StdEncoding.DecodeString(handle)
	if err == nil && len(b) == receiptBytes {
		r := receipt{
			queue:    binary.BigEndian.Uint64(b),
			message:  binary.BigEndian.Uint64(b[8:]),
			receives: binary.BigEndian.Uint32(b[16:]),
		}
		if binary.BigEndian.Uint64(b[20:]) == r.sum() && r.queue == q.serial {
			return r, nil
		}
	}
	return receipt{}, wire.Errorf("ReceiptHandleIsInvalid",
		"The input receipt handle is invalid: expected one returned by ReceiveMessage on the queue %s, got %q.",
		q.name, handle)
}
