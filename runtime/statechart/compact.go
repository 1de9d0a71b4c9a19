package statechart

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// compact parses JSON without spaces whose strings are all plain, which is the usual output of AppendJSON. It rejects
// all other JSON. The caller then uses encoding/json, which also reports errors.
type compact struct {
	text []byte
	at   int
}

// next consumes b if it is the next byte.
func (c *compact) next(b byte) bool {
	if c.at < len(c.text) && c.text[c.at] == b {
		c.at++
		return true
	}
	return false
}

// plain consumes an ASCII string without escapes.
func (c *compact) plain() (text []byte, ok bool) {
	if !c.next('"') {
		return nil, false
	}
	for start := c.at; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b == '"':
			c.at++
			return c.text[start : c.at-1], true
		case b < ' ' || b >= 0x80 || b == '\\':
			return nil, false
		}
	}
	return nil, false
}

// raw consumes a value of any kind without leading space. It finds the value's end but does not validate the value.
func (c *compact) raw() (json.RawMessage, bool) {
	start, depth := c.at, 0
	if start < len(c.text) && c.text[start] <= ' ' {
		return nil, false
	}
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case '"':
			for c.at++; c.at < len(c.text) && c.text[c.at] != '"'; c.at++ {
				if c.text[c.at] == '\\' {
					c.at++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return c.text[start:c.at], c.at > start
			}
			depth--
		case ',':
			if depth == 0 {
				return c.text[start:c.at], c.at > start
			}
		}
		c.at++
	}
	return nil, false
}

// number consumes an integer.
func (c *compact) number() (int64, bool) {
	start := c.at
	for c.at < len(c.text) && c.text[c.at] >= '0' && c.text[c.at] <= '9' {
		c.at++
	}
	if c.at-start > 18 || c.at-start > 1 && c.text[start] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(c.text[start:c.at]), 10, 64)
	return n, err == nil
}

// plainTexts consumes an array of plain strings.
func (c *compact) plainTexts() bool {
	if !c.next('[') {
		return false
	}
	if c.next(']') {
		return true
	}
	for {
		if _, ok := c.plain(); !ok {
			return false
		}
		if c.next(']') {
			return true
		}
		if !c.next(',') {
			return false
		}
	}
}

// readCompact parses a snapshot without optional members. It reports false for a snapshot with timers, services,
// children, deferred events, history or an output.
func readCompact(data []byte) (form snapshotJSON, ok bool) {
	c := &compact{text: data}
	const members = 7
	var seen [members]bool
	ok = c.next('{')
	for i := 0; i < members && ok; i++ {
		if i > 0 && !c.next(',') {
			return form, false
		}
		key, plain := c.plain()
		if !plain || !c.next(':') {
			return form, false
		}
		var n int64
		var text []byte
		at := -1
		switch string(key) {
		case "machine":
			at = 0
			text, ok = c.plain()
			form.Machine = string(text)
		case "version":
			at = 1
			n, ok = c.number()
			form.Version = int(n)
		case "status":
			at = 2
			text, ok = c.plain()
			if form.Status = Active; string(text) != string(Active) {
				form.Status = Status(text)
			}
		case "value":
			at = 3
			form.Value, ok = c.raw()
		case "context":
			at = 4
			form.Context, ok = c.raw()
		case "tags":
			at = 5
			ok = c.plainTexts()
		case "steps":
			at = 6
			form.Steps, ok = c.number()
		}
		if at < 0 || seen[at] {
			return form, false
		}
		seen[at] = true
	}
	return form, ok && c.next('}') && c.at == len(data)
}

// readValue parses the value of an active state, and adds the state's active descendants to a configuration. It reports
// false if the value is not legal.
func (c *chart) readValue(text *compact, state int, into *configuration) bool {
	n := &c.nodes[state]
	if text.at < len(text.text) && text.text[text.at] == '"' {
		id, ok := text.plain()
		child := c.childByID(n, id)
		if !ok || n.kind != compound || child < 0 || len(c.nodes[child].children) > 0 {
			return false
		}
		into.enter(child, state)
		return true
	}
	if !text.next('{') {
		return false
	}
	entered := 0
	for !text.next('}') {
		if entered > 0 && !text.next(',') {
			return false
		}
		id, ok := text.plain()
		child := c.childByID(n, id)
		if !ok || child < 0 || c.isActive(child, into) || !text.next(':') {
			return false
		}
		into.enter(child, state)
		if !c.readValue(text, child, into) {
			return false
		}
		entered++
	}
	return entered == c.activeChildren(n)
}

// childByID returns the index of a child state by ID, or -1. History states do not count.
func (c *chart) childByID(n *node, id []byte) int {
	var memory [128]byte
	path := memory[:0]
	if n.path != "" {
		path = append(append(path, n.path...), '.')
	}
	child, ok := c.byPath[string(append(path, id...))]
	if !ok || c.nodes[child].parent != n.index || c.nodes[child].isHistory() {
		return -1
	}
	return child
}

func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			var quoted bytes.Buffer
			encoder := json.NewEncoder(&quoted)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(text) // Encoding a string cannot fail.
			return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte{'\n'})...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func (c *chart) appendValue(b []byte, configuration *configuration, state int) []byte {
	n := &c.nodes[state]
	if n.kind == compound {
		child := c.childAbove(configuration.lastWithin(state+1, n.last), state)
		id := c.nodes[child].def.ID
		if len(c.nodes[child].children) == 0 {
			return appendText(b, id)
		}
		b = append(appendText(append(b, '{'), id), ':')
		return append(c.appendValue(b, configuration, child), '}')
	}
	b = append(b, '{')
	first := true
	for _, child := range n.children {
		if c.nodes[child].isHistory() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, c.nodes[child].def.ID), ':')
		b = c.appendValue(b, configuration, child)
	}
	return append(b, '}')
}

// appendTags appends the tags of all active states as a JSON array, sorted and without duplicates.
func (c *chart) appendTags(b []byte, configuration *configuration) []byte {
	var memory [8]string
	tags := c.tags(configuration, memory[:0])
	b = append(b, '[')
	for k, tag := range tags {
		if k > 0 {
			b = append(b, ',')
		}
		b = appendText(b, tag)
	}
	return append(b, ']')
}

// tags appends the tags of all active states, sorted and without duplicates.
func (c *chart) tags(configuration *configuration, tags []string) []string {
	previous := -1
	for _, leaf := range configuration.leaves() {
		for i := int(leaf); i > previous; i = c.nodes[i].parent {
			tags = append(tags, c.nodes[i].def.Tags...)
		}
		previous = int(leaf)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}
