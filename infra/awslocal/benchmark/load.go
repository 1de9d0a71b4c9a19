package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client calls AWS operations in the JSON protocol, without an SDK.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, connections int) *client {
	return &client{url: url, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
		Timeout:   time.Minute,
	}}
}

const (
	sqsTarget    = "AmazonSQS"
	dynamoTarget = "DynamoDB_20120810"
)

// call performs an operation and decodes its answer into `out`, if that is not nil.
func (c *client) call(target, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, c.url+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	service := "sqs"
	if target == dynamoTarget {
		service = "dynamodb"
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Target", target+"."+operation)
	request.Header.Set("X-Amz-Date", "20260101T000000Z")
	// Emulators read the credential scope but do not verify the signature.
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/"+service+
		"/aws4_request, SignedHeaders=host;x-amz-date, Signature="+strings.Repeat("0", 64))
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", operation, answer.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// rate runs the function `op` in the given number of concurrent clients for the given duration. It returns operations
// per second. The function receives the number of its client, and how many calls that client has made before.
func rate(clients int, duration time.Duration, op func(client, n int) error) (float64, error) {
	var (
		done  atomic.Int64
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	start := time.Now()
	for i := range clients {
		group.Go(func() {
			for n := 0; time.Since(start) < duration; n++ {
				if err := op(i, n); err != nil {
					once.Do(func() { first = err })
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), first
}
