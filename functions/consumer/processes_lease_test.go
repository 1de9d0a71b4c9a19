package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// TestAKilledConsumerFreesItsInstanceWithinTheLease kills a consumer during a ten-minute service. Another consumer
// calls the service again, long before the queue's visibility timeout of more than 18 minutes. Tests in virtual time
// check the 30 seconds of the lease. Here, the time depends on the machine, so the test only logs it.
func TestAKilledConsumerFreesItsInstanceWithinTheLease(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for a lease of 30 seconds in real time: `make check` runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // less than the visibility timeout
	defer cancel()
	random := rand.New(rand.NewPCG(1, 1))
	l := startLocal(ctx, t, random, 15*time.Minute)
	l.awaitQueue(ctx)
	_, err := sqs.NewFromConfig(l.config).SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: aws.String(l.queueURL("settle.fifo")), MessageGroupId: aws.String("account/1"), MessageDeduplicationId: aws.String("1"),
		MessageBody: aws.String(fmt.Sprintf(`{"type": %q, "producer": 1, "serial": 1, "amount": %d}`, pay, slowAmount)),
	})
	if err != nil {
		t.Fatal(err)
	}
	called := func(times int) {
		for ctx.Err() == nil {
			l.mu.Lock()
			sum := 0
			for _, n := range l.payments {
				sum += n
			}
			l.mu.Unlock()
			if sum == times {
				return
			}
			pause(ctx, 10*time.Millisecond)
		}
		t.Fatalf("the service was not called %d times\n%s", times, l.tail())
	}
	called(1)
	pause(ctx, 12*time.Second) // The consumer takes the lease after a second, and extends it after 11 seconds.
	l.kill(ctx, random, 1)
	killed := time.Now()
	called(2)
	t.Logf("another consumer called the service %v after the kill", time.Since(killed).Round(time.Millisecond))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.payments) != 1 {
		t.Errorf("want one key for both calls, got %v", l.payments)
	}
}
