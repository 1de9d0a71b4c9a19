package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/reserved"
)

// If the last send of a sender does not fit into the receiver's record, it is stored as a separate item. Its key, the
// attribute `instance`, is "sends/<receiver> <queue> <sender>". The item holds the ID of the send and its place in the
// sender's order. It has no revision, because it is not an instance.
const (
	sendsPrefix      = reserved.Sends + "/"
	attrSend         = "send"
	attrSendStep     = "step"
	attrSendPosition = "position"
)

// KeepSends stores the last sends that do not fit into the receiver's record, one for each sender. DynamoDB deletes
// them some time after expireAt. KeepSends keeps a stored send that is later than the new one.
func (s *Store) KeepSends(ctx context.Context, receiver instances.ID, queue string, sends []instances.LastSend, expireAt time.Time) error {
	errs := make([]error, len(sends))
	var writes sync.WaitGroup
	for i, send := range sends {
		writes.Go(func() { errs[i] = s.keepSend(ctx, receiver, queue, send, expireAt) })
	}
	writes.Wait()
	return errors.Join(errs...)
}

func (s *Store) keepSend(ctx context.Context, receiver instances.ID, queue string, send instances.LastSend, expireAt time.Time) error {
	step, position := send.Position()
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: sendKey(receiver, queue, send.Sender),
		UpdateExpression:    aws.String("SET #send = :send, #step = :step, #position = :position, #expire_at = :expire_at"),
		ConditionExpression: aws.String("attribute_not_exists(#step) OR #step < :step OR #step = :step AND #position < :position"),
		ExpressionAttributeNames: map[string]string{
			"#send": attrSend, "#step": attrSendStep, "#position": attrSendPosition, "#expire_at": attrExpireAt,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":send": text(send.ID), ":expire_at": number(expireSeconds(expireAt)), ":step": unsigned(step), ":position": unsigned(position),
		},
	})
	if err != nil && !errors.Is(classify(err), durable.ErrConflict) {
		return s.failed(fmt.Sprintf("storing the last send of %s to %s", send.Sender, receiver), err)
	}
	return nil
}

// LastSend returns the last send that KeepSends stored for the sender, or false if KeepSends stored none.
func (s *Store) LastSend(ctx context.Context, receiver instances.ID, queue, sender string) (instances.LastSend, bool, error) {
	doing := fmt.Sprintf("reading the last send of %s to %s", sender, receiver)
	output, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: sendKey(receiver, queue, sender), ConsistentRead: aws.Bool(true),
	})
	if err != nil || len(output.Item) == 0 {
		if err != nil {
			err = s.failed(doing, err)
		}
		return instances.LastSend{}, false, err
	}
	r := reader{item: output.Item}
	last := instances.LastSend{Sender: sender, ID: r.text(attrSend)}
	if r.err != nil {
		return instances.LastSend{}, false, s.failed(doing, fmt.Errorf("%w: %w", durable.ErrUnreadable, r.err))
	}
	return last, true, nil
}

// MoveSends copies the sends that KeepSends stored for other queues to a new queue. Use it when the new queue replaces
// lost ones. The prefix selects receivers by their names; an empty prefix selects all. Copying twice changes nothing.
func (s *Store) MoveSends(ctx context.Context, prefix, queue string) error {
	doing := "moving the last sends to " + queue
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("begins_with(#instance, :prefix)"),
		ExpressionAttributeNames:  map[string]string{"#instance": attrInstance},
		ExpressionAttributeValues: map[string]types.AttributeValue{":prefix": text(sendsPrefix + prefix)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s.failed(doing, err)
		}
		for _, item := range page.Items {
			r := reader{item: item}
			key, id, expire := strings.TrimPrefix(r.text(attrInstance), sendsPrefix), r.text(attrSend), r.integer(attrExpireAt)
			parts := strings.Split(key, " ")
			if r.err != nil || len(parts) != 3 || parts[1] == queue {
				continue // The item is damaged, or belongs to the new queue.
			}
			receiver, err := instances.ParseID(parts[0])
			if err == nil {
				err = s.keepSend(ctx, receiver, queue, instances.LastSend{Sender: parts[2], ID: id}, time.Unix(expire, 0))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func sendKey(receiver instances.ID, queue, sender string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrInstance: text(sendsPrefix + receiver.String() + " " + queue + " " + sender)}
}

func unsigned(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}
