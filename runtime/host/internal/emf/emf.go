// Package emf writes metrics in CloudWatch's embedded metric format. CloudWatch extracts the metrics from JSON log
// lines, so no API call is needed. Specification:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package emf

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
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

// Line returns the metrics as one line with a trailing line feed. All metrics are in the namespace and have one
// dimension. Line returns an error if there are more than MetricsMax. The names of the metrics and of the dimension
// must consist of letters, so none of them is "_aws".
func Line(at time.Time, namespace, dimension, value string, metrics []Metric) ([]byte, error) {
	if len(metrics) > MetricsMax {
		return nil, fmt.Errorf("emf: expected at most %d metrics per line (MetricsMax), got %d: write several lines", MetricsMax, len(metrics))
	}
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	line, definitions := []byte{'{'}, []byte(nil)
	for i, metric := range metrics {
		if math.IsNaN(metric.Value) || math.IsInf(metric.Value, 0) {
			return nil, fmt.Errorf("emf: metric %s: expected a number that JSON can represent, got %v", metric.Name, metric.Value)
		}
		if i > 0 {
			definitions = append(definitions, ',')
		}
		line = append(strconv.AppendFloat(fmt.Appendf(line, "%q:", metric.Name), metric.Value, 'f', -1, 64), ',')
		definitions = fmt.Appendf(definitions, `{"Name":%q,"Unit":%q}`, metric.Name, metric.Unit)
	}
	return fmt.Appendf(line, `%q:%s,"_aws":{"CloudWatchMetrics":[{"Dimensions":[[%q]],"Metrics":[%s],"Namespace":%q}],"Timestamp":%d}}`+"\n",
		dimension, quoted, dimension, definitions, namespace, at.UnixMilli()), nil // milliseconds since 1970
}
