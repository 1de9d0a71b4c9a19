package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// standInVariable turns this test binary into a stand-in for the aws CLI or curl, with the features that the
// pages use. A stand-in calls the stack over the same protocols, so the tests need neither program.
const standInVariable = "SETTLE_DOCS_STANDIN"

// writeStandIns puts the stand-ins into a folder of the PATH.
func writeStandIns(t *testing.T, folder string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{
		"aws":  fmt.Sprintf("#!/bin/sh\n%s=aws exec '%s' \"$@\"\n", standInVariable, self),
		"curl": fmt.Sprintf("#!/bin/sh\n%s=curl exec '%s' \"$@\"\n", standInVariable, self),
	}
	if *awsFlag != "" {
		scripts["aws"] = fmt.Sprintf("#!/bin/sh\nAWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1 exec '%s' \"$@\"\n", *awsFlag)
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// standIn is the main function of a stand-in. It returns the exit code.
func standIn(tool string, arguments []string) int {
	run := runCurl
	if tool == "aws" {
		run = runAWS
	}
	if err := run(os.Stdout, arguments); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", tool, err)
		return 1
	}
	return 0
}

// services maps each service to its protocol: the prefix of X-Amz-Target, and the version of AWS JSON.
var services = map[string]struct{ target, version string }{
	"sqs":           {"AmazonSQS", "1.0"},
	"dynamodb":      {"DynamoDB_20120810", "1.0"},
	"stepfunctions": {"AWSStepFunctions", "1.0"},
}

// awsCall is the call to AWS that a command line describes.
type awsCall struct {
	endpoint, query, output string
	service, operation      string
	input                   map[string]any
}

// lists contains the parameters that accept several values.
var lists = []string{"AttributeNames", "MessageAttributeNames", "MessageSystemAttributeNames"}

// parseAWS reads a command line of the aws CLI.
func parseAWS(arguments []string) (awsCall, error) {
	call := awsCall{input: map[string]any{}, output: "json"}
	var words []string
	for i := 0; i < len(arguments); i++ {
		option, isOption := strings.CutPrefix(arguments[i], "--")
		if !isOption {
			words = append(words, arguments[i])
			continue
		}
		var values []string
		for i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "--") {
			i++
			values = append(values, arguments[i])
			if !slices.Contains(lists, member(option, "")) {
				break
			}
		}
		switch {
		case option == "endpoint-url" || option == "query" || option == "output":
			*map[string]*string{"endpoint-url": &call.endpoint, "query": &call.query, "output": &call.output}[option] = strings.Join(values, "")
		case slices.Contains(lists, member(option, "")):
			call.input[member(option, "")] = values
		case len(values) == 0:
			call.input[member(strings.TrimPrefix(option, "no-"), words[0])] = !strings.HasPrefix(option, "no-")
		default:
			call.input[member(option, words[0])] = value(values[0])
		}
	}
	if len(words) != 2 || call.endpoint == "" {
		return awsCall{}, fmt.Errorf("expected --endpoint-url, a service and an operation, got %q", arguments)
	}
	call.service, call.operation = words[0], member(words[1], "")
	return call, nil
}

// member returns the name of a parameter in the API. Names of Step Functions begin with a lower-case letter.
func member(option, service string) string {
	var name strings.Builder
	for i, word := range strings.Split(option, "-") {
		if i == 0 && service == "stepfunctions" {
			name.WriteString(word)
			continue
		}
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// value parses the value of an option: a number, a JSON object or list, or otherwise the text itself.
func value(text string) any {
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		return json.RawMessage(text)
	}
	return text
}

// texts lists the parameters that are always texts, even if they look like JSON.
var texts = []string{"MessageBody", "input", "definition"}

func runAWS(w io.Writer, arguments []string) error {
	call, err := parseAWS(arguments)
	if err != nil {
		return err
	}
	service, known := services[call.service]
	if !known {
		return fmt.Errorf("the stand-in does not support %s", call.service)
	}
	for _, name := range texts {
		if raw, ok := call.input[name].(json.RawMessage); ok {
			call.input[name] = string(raw)
		}
	}
	body, err := json.Marshal(call.input)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, call.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-"+service.version)
	request.Header.Set("X-Amz-Target", service.target+"."+call.operation)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	var output any
	if len(bytes.TrimSpace(answer)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	if err := decoder.Decode(&output); err != nil {
		return err
	}
	if object, ok := output.(map[string]any); ok && len(object) == 0 {
		return nil
	}
	if call.query != "" {
		if output, err = query(output, call.query); err != nil {
			return err
		}
	}
	return printAWS(w, output, call.output)
}

// printAWS prints an answer as the aws CLI does: as JSON, or as text with one line per list.
func printAWS(w io.Writer, output any, format string) error {
	if format != "text" {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "    ")
		return encoder.Encode(output)
	}
	row, isList := output.([]any)
	if isList && slices.ContainsFunc(row, func(v any) bool { _, nested := v.([]any); return nested }) {
		for _, inner := range row {
			if err := printAWS(w, inner, format); err != nil {
				return err
			}
		}
		return nil
	}
	if !isList {
		row = []any{output}
	}
	cells := make([]string, len(row))
	for i, v := range row {
		cells[i] = fmt.Sprint(v)
		if v == nil {
			cells[i] = "None"
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
	return err
}

// query evaluates the part of JMESPath that the pages use: names, [n], [], and lists of them in brackets.
func query(v any, path string) (any, error) {
	path = strings.TrimPrefix(path, ".")
	switch {
	case path == "":
		return v, nil
	case strings.HasPrefix(path, "[]"):
		list, _ := v.([]any)
		found := []any{}
		for _, element := range list {
			value, err := query(element, path[2:])
			if err != nil {
				return nil, err
			}
			if inner, ok := value.([]any); ok && strings.Contains(path[2:], "[]") {
				found = append(found, inner...)
			} else if value != nil {
				found = append(found, value)
			}
		}
		return found, nil
	case path[0] == '[':
		end := strings.IndexByte(path, ']')
		if end < 0 || end != len(path)-1 && path[end+1] != '.' && path[end+1] != '[' {
			return nil, errors.New("the stand-in cannot read this --query")
		}
		if n, err := strconv.Atoi(path[1:end]); err == nil {
			list, _ := v.([]any)
			if n >= len(list) {
				return nil, nil //nolint:nilnil // JMESPath's null.
			}
			return query(list[n], path[end+1:])
		}
		found := []any{}
		for name := range strings.SplitSeq(path[1:end], ",") {
			value, err := query(v, strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			found = append(found, value)
		}
		return found, nil
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	object, _ := v.(map[string]any)
	return query(object[path[:end]], path[end:])
}

// runCurl supports curl's options -i, -s, -H and -d, and a URL. It accepts --aws-sigv4 and --user without signing,
// because the local stack does not authenticate callers.
func runCurl(w io.Writer, arguments []string) error {
	method, body, address, include := http.MethodGet, "", "", false
	header := http.Header{}
	for i := 0; i < len(arguments); i++ {
		next := func() string { i++; return arguments[min(i, len(arguments)-1)] }
		switch argument := arguments[i]; argument {
		case "-i", "-si":
			include = true
		case "-s":
		case "-H":
			name, value, _ := strings.Cut(next(), ":")
			header.Set(name, strings.TrimSpace(value))
		case "-d":
			method, body = http.MethodPost, next()
		case "--aws-sigv4", "--user":
			next()
		default:
			if strings.HasPrefix(argument, "-") || address != "" {
				return fmt.Errorf("the stand-in does not support %s", argument)
			}
			address = argument
		}
	}
	request, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if include {
		fmt.Fprintf(w, "%s %s\n", response.Proto, response.Status)
		if err := response.Header.Write(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err = io.Copy(w, response.Body)
	return err
}

func TestQueriesOfTheStandIn(t *testing.T) {
	t.Parallel()
	var answer any
	if err := json.Unmarshal([]byte(`{"Items": [{"a": {"S": "1"}, "b": {"S": "x"}}, {"a": {"S": "2"}}], "Count": 2}`), &answer); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"Count":             `2`,
		"Items[0].a.S":      `"1"`,
		"Items[7].a.S":      `null`,
		"Items[].b.S":       `["x"]`,
		"Items[].[a.S,b.S]": `[["1","x"],["2",null]]`,
		"[Count, Items[0]]": ``,
	} {
		found, err := query(answer, path)
		got, _ := json.Marshal(found) // A value from JSON always marshals.
		if err != nil {
			got = nil
		}
		if string(got) != want {
			t.Errorf("%s: expected %s, got %s and %v", path, want, got, err)
		}
	}
}
