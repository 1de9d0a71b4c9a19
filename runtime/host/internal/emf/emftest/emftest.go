// Package emftest checks lines of the embedded metric format against the specification, for tests.
package emftest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The limits of the specification and of CloudWatch (PutMetricData, MetricDatum).
const (
	lineBytesMax       = 1 << 20
	metricsMax         = 100
	dimensionsMax      = 30
	dimensionBytesMax  = 1024
	metricNameBytesMax = 1024
	namespaceBytesMax  = 1024
)

// units are CloudWatch's units.
var units = strings.Fields(`Seconds Microseconds Milliseconds Bytes Kilobytes Megabytes Gigabytes Terabytes Bits Kilobits Megabits Gigabits
	Terabits Percent Count Bytes/Second Kilobytes/Second Megabytes/Second Gigabytes/Second Terabytes/Second Bits/Second Kilobits/Second
	Megabits/Second Gigabits/Second Terabits/Second Count/Second None`)

type metadata struct {
	Timestamp         *int64
	CloudWatchMetrics []struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []struct {
			Name, Unit        string
			StorageResolution *int
		}
	}
}

// Check returns the metrics of a line, or the first violation of the specification.
func Check(line []byte) (map[string]float64, error) {
	body, ended := bytes.CutSuffix(line, []byte("\n"))
	if !ended || bytes.ContainsAny(body, "\n\r") || len(line) > lineBytesMax {
		return nil, fmt.Errorf("expected one line of at most %d bytes, got %d bytes", lineBytesMax, len(line))
	}
	var root map[string]json.RawMessage
	if err := json.Unmarshal(body, &root); err != nil {
		return nil, fmt.Errorf("expected a JSON object: %w", err)
	}
	if err := exactKeys(root["_aws"]); err != nil {
		return nil, err
	}
	var meta metadata
	decoder := json.NewDecoder(bytes.NewReader(root["_aws"]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&meta); err != nil {
		return nil, fmt.Errorf("the key _aws: %w", err)
	}
	if meta.Timestamp == nil || *meta.Timestamp <= 0 || len(meta.CloudWatchMetrics) == 0 {
		return nil, errors.New("the key _aws: expected a Timestamp and CloudWatchMetrics")
	}
	values := map[string]float64{}
	for _, directive := range meta.CloudWatchMetrics {
		if directive.Namespace == "" || len(directive.Namespace) > namespaceBytesMax || len(directive.Metrics) > metricsMax || len(directive.Dimensions) == 0 {
			return nil, errors.New("expected a Namespace, Dimensions, and not too many Metrics")
		}
		for _, set := range directive.Dimensions {
			if len(set) > dimensionsMax {
				return nil, fmt.Errorf("expected at most %d dimensions in a set, got %d", dimensionsMax, len(set))
			}
			for _, name := range set {
				var value string
				if err := json.Unmarshal(root[name], &value); err != nil || value == "" || len(value) > dimensionBytesMax {
					return nil, fmt.Errorf("expected a string as value of the dimension %q, got %s", name, root[name])
				}
			}
		}
		for _, metric := range directive.Metrics {
			var value float64
			_, twice := values[metric.Name]
			if err := json.Unmarshal(root[metric.Name], &value); err != nil || metric.Name == "" || len(metric.Name) > metricNameBytesMax || twice {
				return nil, fmt.Errorf("expected exactly one number as value of the metric %q, got %s", metric.Name, root[metric.Name])
			}
			if !slices.Contains(units, metric.Unit) {
				return nil, fmt.Errorf("expected a CloudWatch unit for %q, got %q", metric.Name, metric.Unit)
			}
			values[metric.Name] = value
		}
	}
	return values, nil
}

// exactKeys rejects keys in the wrong case, which encoding/json accepts.
func exactKeys(meta json.RawMessage) error {
	for _, key := range []string{"Timestamp", "CloudWatchMetrics", "Namespace", "Dimensions", "Metrics", "Name"} {
		if !bytes.Contains(meta, []byte(`"`+key+`":`)) {
			return fmt.Errorf("the key _aws: expected it to contain the key %q", key)
		}
	}
	return nil
}
