package xstatejson_test

import (
	"bytes"
	"encoding/json"
)

// doc is a JSON object that preserves the order of its keys.
type doc []field

type field struct {
	key   string
	value any
}

func (d doc) MarshalJSON() ([]byte, error) { return appendJSON(nil, d), nil }

// appendJSON encodes a value of a drawn machine and preserves the order of keys.
func appendJSON(to []byte, v any) []byte {
	switch v := v.(type) {
	case doc:
		to = append(to, '{')
		for i, f := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendJSON(to, f.key), ':')
			to = appendJSON(to, f.value)
		}
		return append(to, '}')
	case []any:
		to = append(to, '[')
		for i, item := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, item)
		}
		return append(to, ']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return append(to, text...)
	}
}

// config encodes the machine as an XState config.
func (d *drawn) config() []byte {
	if d.text == nil {
		d.text = appendJSON(nil, d.root.doc())
		if d.notes {
			d.text = bytes.ReplaceAll(bytes.ReplaceAll(d.text, []byte(`{"type":"log"`), []byte(`{"type":"note"`)), []byte(`["output",`), []byte(`["note output",`))
		}
	}
	return d.text
}

func (s *drawnState) doc() doc {
	var d doc
	add := func(key string, value any, is bool) {
		if is {
			d = append(d, field{key, value})
		}
	}
	add("id", s.id, s.id != "")
	switch s.kind {
	case "parallel", "final":
		add("type", s.kind, true)
	case "shallow", "deep":
		add("type", "history", true)
		add("history", s.kind, true)
	}
	add("target", s.target, s.target != "")
	if s.initialActions && s.kind == "compound" {
		add("initial", doc{{"target", s.initial}, {"actions", logged("initial of " + s.key)}}, true)
	} else {
		add("initial", s.initial, s.initial != "")
	}
	add("entry", s.entry, len(s.entry) > 0)
	add("exit", s.exit, len(s.exit) > 0)
	add("tags", s.tags, len(s.tags) > 0)
	add("output", s.output, s.output != nil)
	add("on", onDoc(s.on), len(s.on) > 0)
	add("always", transitionDocs(s.always), len(s.always) > 0)
	add("after", onDoc(s.after), len(s.after) > 0)
	add("onDone", transitionDocs(s.onDone), len(s.onDone) > 0)
	var children doc
	for _, c := range s.children {
		children = append(children, field{c.key, c.doc()})
	}
	add("states", children, len(children) > 0)
	return d
}

func onDoc(on []drawnOn) doc {
	var d doc
	for _, o := range on {
		d = append(d, field{o.key, transitionDocs(o.transitions)})
	}
	return d
}

func transitionDocs(transitions []*drawnTransition) []any {
	docs := []any{}
	for _, t := range transitions {
		d := doc{}
		switch len(t.targets) {
		case 0:
		case 1:
			d = append(d, field{"target", t.targets[0]})
		default:
			d = append(d, field{"target", t.targets})
		}
		if t.guard != nil {
			d = append(d, field{"guard", t.guard})
		}
		if len(t.actions) > 0 {
			d = append(d, field{"actions", t.actions})
		}
		if t.reenter {
			d = append(d, field{"reenter", true})
		}
		docs = append(docs, d)
	}
	return docs
}
