package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// ErrFormat is wrapped by the errors of input that has the wrong format.
var ErrFormat = errors.New("wrong format")

// Read yields the commits in a log. It skips all other lines. It reads JSON lines, lines that begin with a time or the
// name of a stream, pretty-printed objects, and the output of `aws logs filter-log-events`. Each of them may be
// compressed with gzip.
func Read(log io.Reader) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		lines, err := unzipped(log)
		if err != nil {
			yield(Commit{}, err)
			return
		}
		var open bytes.Buffer // the lines of a pretty-printed object that has not ended
		begun := 0
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				if open.Len() > 0 && bytes.Contains(line, []byte(lineMessage)) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("}")) {
					open.Reset() // The line is a whole commit. Another program has written the open object.
				}
				switch {
				case open.Len() > 0:
					open.Write(line)
				case isOpening(line):
					begun = number
					open.Write(line[bytes.IndexByte(line, '{'):])
				default:
					begun = number
				}
				text := line
				if open.Len() > 0 {
					text = open.Bytes()
				}
				if open.Len() == 0 || isClosing(line) {
					if !yieldCommits(text, begun, yield) {
						return
					}
					open.Reset()
				}
			}
			switch {
			case errors.Is(err, io.EOF) && bytes.Contains(open.Bytes(), []byte(lineMessage)):
				yield(Commit{}, fmt.Errorf("%w: line %d: expected a complete JSON object, got one that is cut off", ErrFormat, begun))
				return
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Commit{}, fmt.Errorf("after line %d: %w", number, err))
				return
			}
		}
	}
}

// unzipped returns a reader of the text.
func unzipped(file io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReader(file)
	if magic, err := buffered.Peek(2); err != nil || string(magic) != "\x1f\x8b" {
		return buffered, nil //nolint:nilerr // A shorter file is not compressed.
	}
	text, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return bufio.NewReader(text), nil
}

// isOpening reports whether the line begins a pretty-printed object: its first brace is its last character. isClosing
// reports whether the line ends such an object.
func isOpening(line []byte) bool {
	line = bytes.TrimSpace(line)
	return bytes.IndexByte(line, '{') == len(line)-1 && len(line) > 0
}

func isClosing(line []byte) bool { return bytes.HasPrefix(line, []byte("}")) }

// yieldCommits yields the commits in a line or an object.
func yieldCommits(text []byte, number int, yield func(Commit, error) bool) bool {
	begin := bytes.IndexByte(text, '{')
	if begin < 0 {
		return true
	}
	text = text[begin:]
	var object struct {
		Msg      string          `json:"msg"`
		Recorded json.RawMessage `json:"recorded"`
		Events   []struct {
			Message string `json:"message"`
		} `json:"events"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		if !bytes.Contains(text, []byte(lineMessage)) {
			return true // The line belongs to another program.
		}
		return yield(Commit{}, fmt.Errorf("%w: line %d: expected the JSON of a commit, got one that is cut off or damaged: %w", ErrFormat, number, err))
	}
	for _, event := range object.Events {
		if strings.Contains(event.Message, lineMessage) && !yieldCommits([]byte(event.Message), number, yield) {
			return false
		}
	}
	if object.Recorded == nil || object.Msg != lineMessage {
		return true
	}
	var commit Commit
	if err := json.Unmarshal(object.Recorded, &commit); err != nil {
		return yield(commit, fmt.Errorf("%w: line %d: %w", ErrFormat, number, err))
	}
	if commit.Format != format {
		return yield(commit, fmt.Errorf("%w: line %d: expected a commit in the format %d, got the format %d: use the settle of the build that wrote it", ErrFormat, number, format, commit.Format))
	}
	return yield(commit, nil)
}
