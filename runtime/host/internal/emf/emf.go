// Package emf writes metrics in CloudWatch's embedded metric format. CloudWatch extracts the metrics from JSON log
// lines, so no API call is needed. Specification:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package emf

import (
	"encoding/json"
	"fmt"
	"time"
)

// Unit is a CloudWatch unit (Amazon CloudWatch API Reference, MetricDatum).
type Unit string

// The units in use.
const (
	Count   Unit = "Count"
	Seconds Unit = "Seconds"
)

// MetricsMax is the limit of metrics per line.
const MetricsMax = 100

// Metric is one value.
type Metric struct {
	Name  string
	Unit  Unit
	Value float64
}

// Line returns the metrics as one line, including the line feed, in the namespace and with one dimension. It returns an
// error if there are more than MetricsMax. Invariant: neither a metric nor the dimension is named "_aws".
func Line(at time.Time, namespace, dimension, value string, metrics []Metric) ([]byte, error) {
	if len(metrics) > MetricsMax {
		return nil, fmt.Errorf("emf: expected at most %d metrics per line (MetricsMax), got %d: write several lines", MetricsMax, len(metrics))
	}
	definitions := make([]map[string]any, len(metrics))
	line := map[string]any{dimension: value}
	for i, metric := range metrics {
		definitions[i] = map[string]any{"Name": metric.Name, "Unit": metric.Unit}
		line[metric.Name] = metric.Value
	}
	line["_aws"] = map[string]any{
		"Timestamp":         at.UnixMilli(), // milliseconds since 1970
		"CloudWatchMetrics": []any{map[string]any{"Namespace": namespace, "Dimensions": [][]string{{dimension}}, "Metrics": definitions}},
	}
	text, err := json.Marshal(line)
	return append(text, '\n'), err
}
