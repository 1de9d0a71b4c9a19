package itemjson

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// everything is a line with all types, in the form of an export to S3.
const everything = `{"Item":{"instance":{"S":"job/1"},"n":{"N":"12345678901234567890.5"},"b":{"B":"AP8="},"yes":{"BOOL":true},"none":{"NULL":true},` +
	`"ss":{"SS":["b","a"]},"ns":{"NS":["2","1"]},"bs":{"BS":["Ag==","AQ=="]},"l":{"L":[{"S":""},{"L":[]}]},"m":{"M":{"<k>":{"M":{}}}}}}`

func TestAnItemWithAllTypesIsReadAndWrittenUnchanged(t *testing.T) {
	t.Parallel()
	first, err := Unmarshal([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	line, err := Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Unmarshal(line)
	if err != nil || !Equal(first, again) || len(first) != 10 || len(line) != len(everything) {
		t.Errorf("got %v and\n%s", err, line)
	}
}

func TestItemsDifferByAnyValue(t *testing.T) {
	t.Parallel()
	item, err := Unmarshal([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"job/1"`: `"job/2"`, `0.5"`: `0.50"`, `"AP8="`: `"AP4="`, `"BOOL":true`: `"BOOL":false`, `["b","a"]`: `["b","c"]`, `["2","1"]`: `["2"]`,
		`["Ag==","AQ=="]`: `["Ag=="]`, `{"S":""}`: `{"S":" "}`, `"<k>"`: `"k"`, `"none":{"NULL":true},`: ``, `{"L":[]}`: `{"M":{}}`,
	} {
		other, err := Unmarshal([]byte(strings.Replace(everything, from, to, 1)))
		if err != nil || Equal(item, other) || Equal(other, item) {
			t.Errorf("%s instead of %s: got %v, or equal items", to, from, err)
		}
	}
	reordered, err := Unmarshal([]byte(strings.NewReplacer(`["b","a"]`, `["a","b"]`, `["2","1"]`, `["1","2"]`, `["Ag==","AQ=="]`, `["AQ==","Ag=="]`).Replace(everything)))
	if err != nil || !Equal(item, reordered) {
		t.Errorf("got %v, or different items: the elements of a set have no order", err)
	}
}

func TestLinesWithoutAnItemAreReportedAndTheOthersRead(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"Item":{"instance":{"S":"a"}}}`, `{"instance":"job/1","snapshot":{}}`, `{"Item":{"instance":{"S":"a","N":"1"}}}`, `{"Item":{"instance":{"X":"a"}}}`,
		`{"Item":{"instance":{"S":1}}}`, `{"Item":{"l":{"L":[{"S":"a"},{}]}}}`, `{"Keys":{},"Metadata":{},"NewImage":{}}`, `{"Item":`, ``, `{"Item":{"instance":{"S":"b"}}}`,
	}
	const shape = "expected each value as one type of DynamoDB"
	want := []string{"", "got the keys instance, snapshot", shape, shape, "expected StringAttributeValue to be of type string", shape, "got the keys Keys, Metadata, NewImage", "unexpected end", ""}
	var zipped bytes.Buffer
	for _, part := range []string{strings.Join(lines[:4], "\n") + "\n", strings.Join(lines[4:], "\n")} { // Two members of one gzip file.
		writer := gzip.NewWriter(&zipped)
		if _, err := writer.Write([]byte(part)); err != nil || writer.Close() != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{strings.Join(lines, "\n"), zipped.String()} {
		var names []string
		i := 0
		for line, err := range Read(strings.NewReader(file)) {
			switch {
			case err != nil:
				t.Fatal(err)
			case line.Err == nil && want[i] == "":
				names = append(names, line.Item["instance"].(*types.AttributeValueMemberS).Value)
			case line.Err == nil || want[i] == "" || !strings.Contains(line.Err.Error(), want[i]):
				t.Errorf("line %d: got %v, want %q", line.Number, line.Err, want[i])
			}
			i++
		}
		if got := strings.Join(names, " "); got != "a b" {
			t.Errorf("got the items %q, want a b", got)
		}
	}
}

func TestAFileThatEndsEarlyFails(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write([]byte(everything + "\n")); err != nil || writer.Close() != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		zipped.String()[:zipped.Len()-4]:     "after line 1: the file is incomplete",
		strings.Repeat("x", lineBytesMax+10): "line 1: expected at most 8388608 bytes",
		"\x1f\x8b0123456789":                 "gzip",
	} {
		var failed error
		for _, err := range Read(strings.NewReader(file)) {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), want) {
			t.Errorf("got %v, want %q", failed, want)
		}
	}
}
