package xstatejson_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// greeting returns a service without a result, for configs with invocations. It rejects the input "refused".
func greeting(input json.RawMessage) (statechart.Service[counter], error) {
	if string(input) == `"refused"` {
		return statechart.Service[counter]{}, errors.New("refused")
	}
	return statechart.ServiceFunc("", func(context.Context, counter, statechart.Call) (json.RawMessage, error) { return nil, nil }), nil
}

func withServices() xstatejson.Implementations[counter] {
	impl := implementations()
	impl.Services = map[string]func(json.RawMessage) (statechart.Service[counter], error){"greet": greeting}
	impl.Actions["fails"] = func(json.RawMessage) (statechart.Action[counter], error) {
		return statechart.Action[counter]{}, errors.New("expected params")
	}
	impl.Guards["fails"] = func(json.RawMessage) (statechart.Guard[counter], error) {
		return statechart.Guard[counter]{}, errors.New("expected params")
	}
	return impl
}

// TestEveryKeyIsRead reads configs with every key in every form and compares the written result.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, want string }{
		{"machine", `{"id":"x","version":"3","description":"d","meta":{"any":1},"context":{"n":1},"initial":"a","states":{"a":{}}}`,
			`{"id":"x","version":"3","description":"d","initial":"a","context":{"n":1},"states":{"a":{}},"meta":{"any":1}}`},
		{"defaults", `{"initial":"a","version":2,"states":{"a":{}}}`,
			`{"id":"machine","version":"2","initial":"a","states":{"a":{}}}`},
		{"root", `{"id":"m","type":"compound","entry":"inc","exit":["inc"],"on":{"E":".a"},"after":{"5":".a"},"initial":"a","states":{"a":{}}}`,
			`{"id":"m","version":"1","initial":"a","entry":["inc"],"exit":["inc"],"on":{"E":{"target":".a"}},"after":{"5":{"target":".a"}},"states":{"a":{}}}`},
		{"default ID", `{"on":{"E":"#(machine).a","F":"#(machine)"},"initial":"a","states":{"a":{"on":{"xstate.done.state.(machine).a":{}}}}}`,
			`{"id":"machine","version":"1","initial":"a","on":{"E":{"target":".a"},"F":{"target":"#machine"}},"states":{"a":{"onDone":{}}}}`},
		{"an ID with other characters", `{"id":"My (light)/é","initial":"a","states":{"a":{"on":{"E":"#My (light)/é"}}}}`,
			`{"id":"My-light","version":"1","initial":"a","states":{"a":{"on":{"E":{"target":"#My-light"}}}}}`},
		{"no states", `{"tags":"t","entry":"inc","on":{"E":{"actions":"inc"}},"invoke":{"src":"greet"}}`,
			`{"id":"machine","version":"1","initial":"atomic","entry":["inc"],"invoke":{"src":"greet"},"on":{"E":{"actions":["inc"]}},"states":{"atomic":{"tags":["t"]}}}`},
		{"ignored keys", `{"id":"m","types":{},"schemas":{"a":1},"schema":1,"tsTypes":1,"options":{"maxIterations":9},"$schema":"x","key":"k","order":1,"strict":true,"predictableActionArguments":true,"preserveActionOrder":true,"initial":"a","states":{"a":{"on":[]}}}`,
			`{"id":"m","initial":"a","states":{"a":{}}}`},
		{"keys with other characters", `{"id":"m","initial":"in progress","states":{"in progress":{"id":"i.d","on":{"E":"v1\\.2","F":"#i\\.d","G":"a/b.x#y","H":"a/b."}},"v1.2":{},"a/b":{"initial":"x#y","states":{"x#y":{"always":{"guard":{"type":"xstate.stateIn","stateValue":{"a/b":"x#y"}}}}}}}}`,
			`{"id":"m","initial":"in_progress","states":{"in_progress":{"on":{"E":{"target":"v1_2"},"F":{"target":"in_progress"},"G":{"target":"#m.a_b.x_y"},"H":{"target":"a_b"}}},"v1_2":{},"a_b":{"initial":"x_y","states":{"x_y":{"always":{"guard":{"type":"xstate.stateIn","stateValue":"#m.a_b.x_y"}}}}}}}`},
		{"wildcards within", state(`{"on":{"a.*.b":"b","*.b":"b","a*":"b","a.*.*":"b","xstate.route":"b"}}`), stated(`{"on":{"xstate.route":{"target":"b"}}}`)},
		{"routes", `{"id":"m","initial":"a","states":{"a":{"route":{},"initial":"x","states":{"x":{"id":"r","description":"d","type":"final","route":{"guard":"even","actions":"inc","description":"e"}}}},"b":{"id":"s","route":{"meta":1}}}}`,
			`{"id":"m","initial":"a","states":{"a":{"initial":"x","states":{"x":{"id":"r","route":{"guard":"even","actions":["inc"],"description":"e"},"description":"d","type":"final"}}},"b":{"id":"s","route":{}}}}`},
		{"snapshots of a service", state(`{"invoke":[{"src":"greet","id":"g","systemId":"s","onSnapshot":[{"target":"b","guard":"even"},"b"]},{"src":"greet","onSnapshot":{"actions":"inc"}}]}`),
			stated(`{"invoke":[{"id":"g","src":"greet"},{"src":"greet"}],"on":{"xstate.snapshot.g":[{"target":"b","guard":"even"},{"target":"b"}],"xstate.snapshot.1.m.a":{"actions":["inc"]}}}`)},
		{"actions of a history state", state(`{"initial":"x","states":{"x":{},"h":{"type":"history","entry":"inc","exit":"inc","tags":"t"}}}`),
			stated(`{"initial":"x","states":{"x":{},"h":{"type":"history","history":"shallow"}}}`)},
		{"parallel root", `{"id":"m","type":"parallel","states":{"a":{},"b":{"type":"atomic"}}}`,
			`{"id":"m","version":"1","type":"parallel","states":{"a":{},"b":{}}}`},
		{"state", state(`{"id":"own","description":"d","tags":"one","entry":{"type":"inc"},"exit":"inc","meta":{"x":null},"always":{"target":"b","guard":"even"}}`),
			stated(`{"description":"d","tags":["one"],"entry":["inc"],"exit":["inc"],"always":{"target":"b","guard":"even"},"meta":{"x":null}}`)},
		{"tags", state(`{"tags":["one","two"]}`), stated(`{"tags":["one","two"]}`)},
		{"final", state(`{"type":"final","output":{"x":[1,"é<",null,true]}}`), stated(`{"type":"final","output":{"x":[1,"é<",null,true]}}`)},
		{"output of the machine", `{"id":"m","initial":"a","output":[1.50,null],"states":{"a":{}}}`, `{"id":"m","initial":"a","output":[1.50,null],"states":{"a":{}}}`},
		{"root as a state", `{"id":"m","tags":"t","always":{"guard":"even","target":".a"},"invoke":[{"src":"greet","onDone":".a","onError":{"target":".b"}},{"src":"greet","id":"g"}],"meta":{"settle":{"defer":["E","F.*"]}},"initial":"a","states":{"a":{"on":{"xstate.done.actor.0.m":"b","xstate.done.actor.g":"b"}},"b":{}}}`,
			`{"id":"m","initial":"a","tags":["t"],"invoke":[{"src":"greet","onDone":{"target":".a"},"onError":{"target":".b"}},{"id":"g","src":"greet"}],"always":{"target":".a","guard":"even"},"states":{"a":{"on":{"xstate.done.actor.0.m":{"target":"b"},"xstate.done.actor.g":{"target":"b"}}},"b":{}},"meta":{"settle":{"defer":["E","F.*"]}}}`},
		{"meta", state(`{"meta":{"b":[1.0],"settle":{"defer":["E"]},"a":{"settle":1}},"initial":"x","states":{"x":{"meta":"text"},"h":{"type":"history","meta":7},"y":{"meta":null},"z":{"meta":{"settle":{}}}}}`),
			stated(`{"initial":"x","states":{"x":{"meta":"text"},"h":{"type":"history","history":"shallow","meta":7},"y":{},"z":{}},"meta":{"b":[1.0],"a":{"settle":1},"settle":{"defer":["E"]}}}`)},
		{"meta apart", state(`{"meta":{"settle":{"defer":["E"],"meta":["x"]}},"initial":"x","states":{"x":{"meta":{"settle":{"meta":{"settle":1}},"b":1}},"y":{"meta":{"settle":7}}}}`),
			stated(`{"initial":"x","states":{"x":{"meta":{"settle":{"meta":{"settle":1}}}},"y":{}},"meta":{"settle":{"defer":["E"],"meta":["x"]}}}`)},
		{"children", state(`{"invoke":[{"src":"job","input":{"n":1},"onDone":"b","onError":"b"},{"src":"greet","onDone":"b"},{"src":"job","id":"j"}],"meta":{"settle":{"invoke":[{"child":true},{"timeout":5},{"child":true}]}},"on":{"xstate.done.actor.1.m.a":{"actions":"inc"},"xstate.done.actor.0.m.a":{"actions":"inc"},"xstate.error.actor.j":"b","xstate.done.actor.*":"b"}}`),
			stated(`{"invoke":[{"src":"greet","onDone":[{"actions":["inc"]},{"target":"b"}]},{"src":"job","input":{"n":1},"onDone":[{"actions":["inc"]},{"target":"b"}],"onError":{"target":"b"}},{"id":"j","src":"job","onError":{"target":"b"}}],"on":{"xstate.done.actor.*":{"target":"b"}},"meta":{"settle":{"invoke":[{"timeout":5},{"child":true},{"child":true}]}}}`)},
		{"children alone", state(`{"invoke":{"src":"job"},"meta":{"settle":{"invoke":[{"child":true}]}},"on":{"xstate.error.actor.*":"b"}}`),
			stated(`{"invoke":{"src":"job"},"on":{"xstate.error.actor.*":{"target":"b"}},"meta":{"settle":{"invoke":[{"child":true}]}}}`)},
		{"children that code spawns", `{"id":"m","meta":{"settle":{"children":["x","y"]}},"initial":"a","states":{"a":{"on":{"xstate.done.actor.x":"b"}},"b":{}}}`,
			`{"id":"m","initial":"a","states":{"a":{"on":{"xstate.done.actor.x":{"target":"b"}}},"b":{}},"meta":{"settle":{"children":["x"]}}}`},
		{"actions about children", state(`{"entry":[{"type":"xstate.spawnChild","id":"w","src":"job","input":[1]},{"type":"xstate.spawnChild","id":"v","src":"job","syncSnapshot":false},{"type":"xstate.sendTo","to":"w","event":{"type":"HI","n":1}}],"exit":{"type":"xstate.stopChild","actorRef":"w"},"on":{"xstate.done.actor.w":"b","xstate.error.actor.v":"b"}}`),
			stated(`{"entry":[{"type":"xstate.spawnChild","id":"w","src":"job","input":[1]},{"type":"xstate.spawnChild","id":"v","src":"job"},{"type":"xstate.sendTo","to":"w","event":{"type":"HI","n":1}}],"exit":[{"type":"xstate.stopChild","actorRef":"w"}],"on":{"xstate.done.actor.w":{"target":"b"},"xstate.error.actor.v":{"target":"b"}}}`)},
		{"emit and log", state(`{"entry":[{"type":"xstate.emit","event":{"type":"SEEN","b":1,"a":2}},{"type":"xstate.log","value":"here <é>"}]}`),
			stated(`{"entry":[{"type":"xstate.emit","event":{"type":"SEEN","b":1,"a":2}},{"type":"xstate.log","value":"here <é>"}]}`)},
		{"descriptions", state(`{"after":{"10":{"target":"b","description":"late"}},"always":{"guard":"even","description":"soon"}}`),
			stated(`{"always":{"guard":"even","description":"soon"},"after":{"10":{"target":"b","description":"late"}}}`)},
		{"initial", state(`{"initial":{"target":"x","actions":"inc","description":"d"},"states":{"x":{}}}`),
			stated(`{"initial":{"target":"x","actions":["inc"]},"states":{"x":{}}}`)},
		{"history", state(`{"initial":"x","states":{"x":{},"h":{"history":true},"i":{"type":"history"},"j":{"history":"deep","target":"x","description":"d"},"k":{"type":"history","history":false},"l":{"history":"shallow","target":["x"]}}}`),
			stated(`{"initial":"x","states":{"x":{},"h":{"type":"history","history":"shallow"},"i":{"type":"history","history":"shallow"},"j":{"description":"d","type":"history","history":"deep","target":"x"},"k":{"type":"history","history":"shallow"},"l":{"type":"history","history":"shallow","target":"x"}}}`)},
		{"history with initial actions", state(`{"initial":{"target":"x","actions":["inc"]},"states":{"x":{},"h":{"type":"history"}}}`),
			stated(`{"initial":{"target":"x","actions":["inc"]},"states":{"x":{},"h":{"type":"history","history":"shallow"}}}`)},
		{"no history", state(`{"history":false}`), stated(`{}`)},
		{"history in regions", state(`{"type":"parallel","states":{"x":{},"h":{"type":"history"}},"onDone":"b"}`),
			stated(`{"type":"parallel","onDone":{"target":"b"},"states":{"x":{},"h":{"type":"history","history":"shallow"}}}`)},
		{"on", state(`{"on":{"A":"b","B":{"target":"b","meta":{},"description":"d"},"C":["b",{"guard":"even","target":"b"}],"D":{},"E":[],"F":null,"G":"","H":{"target":null},"I":{"target":""},"J":{"actions":["inc",{"type":"inc"}],"reenter":true}}}`),
			`{"id":"m","version":"1","initial":"a","states":{"a":{"on":{"A":{"target":"b"},"B":{"target":"b","description":"d"},"C":[{"target":"b"},{"target":"b","guard":"even"}],"D":{},"F":{},"G":{},"H":{},"I":{},"J":{"actions":["inc","inc"],"reenter":true}}},"b":{}},"meta":{"settle":{"events":["E"]}}}`},
		{"targets", `{"id":"m","initial":"a","states":{"a":{"initial":"x","states":{"x":{"id":"deep","on":{"A":"#deep","B":"#m.b","C":"#m","D":"y","E":"y.z","F":"#own.y"}},"y":{"initial":"z","states":{"z":{}}}},"id":"own","on":{"A":".x","B":".y.z","C":"b","D":"#own.x","E":"#deep"}},"b":{"type":"parallel","states":{"q":{},"r":{}},"on":{"A":{"target":["#m.b.q",".r"]},"B":{"target":["a"]}}}}}`,
			`{"id":"m","version":"1","initial":"a","states":{"a":{"initial":"x","on":{"A":{"target":".x"},"B":{"target":".y.z"},"C":{"target":"b"},"D":{"target":".x"},"E":{"target":".x"}},"states":{"x":{"on":{"A":{"target":"x"},"B":{"target":"#m.b"},"C":{"target":"#m"},"D":{"target":"y"},"E":{"target":"#m.a.y.z"},"F":{"target":"y"}}},"y":{"initial":"z","states":{"z":{}}}}},"b":{"type":"parallel","on":{"A":{"target":[".q",".r"]},"B":{"target":"a"}},"states":{"q":{},"r":{}}}}}`},
		{"order of events", state(`{"on":{"*":"b","a.*":"b","z":"b","a.b.*":"b","2":"b","1":"b"}}`),
			stated(`{"on":{"1":{"target":"b"},"2":{"target":"b"},"z":{"target":"b"},"a.b.*":{"target":"b"},"a.*":{"target":"b"},"*":{"target":"b"}}}`)},
		{"order of states", `{"id":"m","initial":"z","states":{"z":{},"10":{},"9":{},"01":{}}}`,
			`{"id":"m","version":"1","initial":"z","states":{"9":{},"10":{},"z":{},"01":{}}}`},
		{"after", state(`{"after":{"1000":"b","500":[{"target":"b","guard":"even"},{"target":"b","actions":"inc"}],"brief":{"target":"b"},"1e3":{},"0":"b","2.5":"b","growing":[{"guard":"even"},{"target":"b","reenter":true}]}}`),
			stated(`{"after":{"0":{"target":"b"},"500":[{"target":"b","guard":"even"},{"target":"b","actions":["inc"]}],"1000":[{"target":"b"},{}],"brief":{"target":"b"},"2.5":{"target":"b"},"growing":[{"guard":"even"},{"target":"b","reenter":true}]}}`)},
		{"invoke", state(`{"invoke":{"src":"greet","input":{"b":1,"a":2},"onDone":"b","onError":[{"target":"b"}]}}`),
			stated(`{"invoke":{"src":"greet","input":{"b":1,"a":2},"onDone":{"target":"b"},"onError":{"target":"b"}}}`)},
		{"invokes", state(`{"invoke":[{"src":"greet","id":"g"},{"src":"greet"}],"on":{"xstate.done.actor.g":"b","xstate.error.actor.1.m.a":"b","xstate.done.state.m.b":"b","xstate.done.actor.*":"b","xstate.error.actor.*":"b","xstate.done.state.*":"b","xstate.done.*":"b","xstate.error.*":"b","error.execution":"b"}}`),
			stated(`{"invoke":[{"id":"g","src":"greet","onDone":{"target":"b"}},{"src":"greet","onError":{"target":"b"}}],"on":{"xstate.done.state.m.b":{"target":"b"},"error.execution":{"target":"b"},"xstate.error.actor.*":{"target":"b"},"xstate.done.actor.*":{"target":"b"},"xstate.done.state.*":{"target":"b"},"xstate.error.*":{"target":"b"},"xstate.done.*":{"target":"b"}}}`)},
		{"wildcards beside ends", state(`{"initial":"x","states":{"x":{"type":"final"}},"invoke":{"src":"greet","onDone":"b","onError":"b"},"onDone":"b","on":{"*":{"actions":"inc"}}}`),
			stated(`{"initial":"x","invoke":{"src":"greet","onDone":{"target":"b"},"onError":{"target":"b"}},"on":{"*":{"actions":["inc"]}},"onDone":{"target":"b"},"states":{"x":{"type":"final"}}}`)},
		{"policy", state(`{"invoke":[{"src":"greet"},{"src":"greet"}],"meta":{"settle":{"invoke":[{},{"timeout":1500,"retry":{"attempts":3,"interval":20,"rate":1.5,"intervalMax":1000}}]}}}`),
			stated(`{"invoke":[{"src":"greet"},{"src":"greet"}],"meta":{"settle":{"invoke":[{},{"timeout":1500,"retry":{"attempts":3,"interval":20,"rate":1.5,"intervalMax":1000}}]}}}`)},
		{"constant delays with names", state(`{"after":{"giveUp":"b"},"meta":{"settle":{"after":{"giveUp":300000}}}}`),
			stated(`{"after":{"giveUp":{"target":"b"}},"meta":{"settle":{"after":{"giveUp":300000}}}}`)},
		{"events", `{"id":"m","initial":"a","meta":{"settle":{"events":["x","y"],"internal":["z"]}},"states":{"a":{"on":{"x":{}}}}}`,
			`{"id":"m","version":"1","initial":"a","states":{"a":{"on":{"x":{}}}},"meta":{"settle":{"events":["y"],"internal":["z"]}}}`},
		{"raise", state(`{"entry":[{"type":"xstate.raise","event":{"type":"E","x":[1]}},{"type":"xstate.raise","event":{"type":"F"},"delay":10,"id":"i"},{"type":"xstate.raise","event":{"type":"F"},"delay":"brief"},{"type":"xstate.cancel","sendId":"i"}]}`),
			stated(`{"entry":[{"type":"xstate.raise","event":{"type":"E","x":[1]}},{"type":"xstate.raise","event":{"type":"F"},"delay":10,"id":"i"},{"type":"xstate.raise","event":{"type":"F"},"delay":"brief"},{"type":"xstate.cancel","sendId":"i"}]}`)},
		{"params", state(`{"entry":{"type":"log","params":{"text":"t"}},"always":{"guard":{"type":"lt","params":{"n":1}}}}`),
			stated(`{"entry":[{"type":"log","params":{"text":"t"}}],"always":{"guard":{"type":"lt","params":{"n":1}}}}`)},
		{"guards", guarded(`{"type":"xstate.and","guards":["even",{"type":"or","guards":["never",{"type":"xstate.not","guards":[{"type":"even"}]}]}]}`),
			guarded(`{"type":"xstate.and","guards":["even",{"type":"xstate.or","guards":["never",{"type":"xstate.not","guards":["even"]}]}]}`)},
		{"stateIn", guarded(`{"type":"xstate.stateIn","stateValue":"#m.b"}`), guarded(`{"type":"xstate.stateIn","stateValue":"#m.b"}`)},
		{"stateIn of a path", guarded(`{"type":"xstate.stateIn","stateValue":"b"}`), guarded(`{"type":"xstate.stateIn","stateValue":"#m.b"}`)},
		{"stateIn of the root", guarded(`{"type":"xstate.stateIn","stateValue":"#m"}`), guarded(`{"type":"xstate.and","guards":[]}`)},
		{"stateIn of a value", guarded(`{"type":"xstate.stateIn","stateValue":{"a":{}}}`), guarded(`{"type":"xstate.stateIn","stateValue":"#m.a"}`)},
		{"stateIn of values", `{"id":"m","type":"parallel","states":{"a":{"always":{"guard":{"type":"xstate.stateIn","stateValue":{"a":{},"b":"x"}}}},"b":{"initial":"x","states":{"x":{}}}}}`,
			`{"id":"m","version":"1","type":"parallel","states":{"a":{"always":{"guard":{"type":"xstate.and","guards":[{"type":"xstate.stateIn","stateValue":"#m.a"},{"type":"xstate.stateIn","stateValue":"#m.b.x"}]}}},"b":{"initial":"x","states":{"x":{}}}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			def, err := xstatejson.Read([]byte(c.config), withServices())
			if err != nil {
				t.Fatal(err)
			}
			chart, err := xstatejson.Foreign(def)
			if err != nil {
				t.Fatal(err)
			}
			config, err := xstatejson.Write(chart)
			if err != nil {
				t.Fatal(err)
			}
			if got := compact(t, config); got != strings.Replace(c.want, `{"id":"m","initial"`, `{"id":"m","version":"1","initial"`, 1) {
				t.Errorf("written, it is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// state returns a config with the states a and b, given the JSON of a.
func state(a string) string {
	return `{"id":"m","initial":"a","states":{"a":` + a + `,"b":{}}}`
}

// stated returns the config from `state` in the form that Write produces.
func stated(a string) string {
	return `{"id":"m","version":"1","initial":"a","states":{"a":` + a + `,"b":{}}}`
}

func guarded(guard string) string { return state(`{"always":{"guard":` + guard + `}}`) }

func compact(t *testing.T, config []byte) string {
	t.Helper()
	var b strings.Builder
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		t.Fatal(err)
	}
	inString := false
	for i, r := range string(raw) {
		if r == '"' && (i == 0 || raw[i-1] != '\\') {
			inString = !inString
		}
		if inString || !strings.ContainsRune(" \n", r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// TestUnreadableConfigsAreReported reads configs with one error each.
func TestUnreadableConfigsAreReported(t *testing.T) {
	t.Parallel()
	const keys = "expected id, type, initial, states, on, always, after, invoke, onDone, entry, exit, history, target, tags, meta, description, output, route"
	deep := strings.Repeat(`{"initial":"x","states":{"x":`, 33) + `{}` + strings.Repeat(`}}`, 33)
	for _, c := range []struct{ name, config, want string }{
		{"empty", ``, `expected more JSON at byte 0, got the end of the document: it may be truncated`},
		{"cut", `{"id"`, `id: expected more JSON at byte 5, got the end of the document: it may be truncated`},
		{"cut object", `{"a":1`, `expected more JSON at byte 6, got the end of the document`},
		{"cut array", `{"a":[1`, `a: expected more JSON at byte 7, got the end of the document`},
		{"no JSON", `{"a" 1}`, `a: expected JSON at byte 5, got "1}": look for a missing or extra comma, colon, quote or bracket`},
		{"no literal", `{"a": [tru, "é", "and some more"]}`, `a[0]: expected JSON at byte 7, got "tru, \"é\", " and more: look for a missing or extra comma`},
		{"an open text", `{"a": "b`, `a: expected more JSON at byte 8, got the end of the document`},
		{"no comma", `{"a": [1 2]}`, `a[1]: expected JSON at byte 9, got "2]}": look for a missing or extra comma`},
		{"no key", `{1:1}`, `expected JSON at byte 1, got "1:1}": look for a missing or extra comma`},
		{"two documents", `{} {}`, `expected the end of the document at byte 2, got " {}": remove the text after the machine`},
		{"no UTF-8", "{\"\xff\":1}", `expected JSON in UTF-8`},
		{"twice", `{"a":{"b":[{"c":1,"c":2}]}}`, `a.b[0].c: duplicate key`},
		{"nesting", strings.Repeat("[", 300), `: expected a nesting of at most 256 (JSONDepthMax)`},
		{"size", `"` + strings.Repeat("x", xstatejson.DocumentBytesMax) + `"`, `expected at most 4194304 bytes (DocumentBytesMax), got 4194306`},
		{"no object", `[]`, `expected an object, got an array`},
		{"a final machine", `{"id":"m","type":"final"}`, `type: expected atomic, compound or parallel at the root, got "final"`},
		{"machine ID", `{"id":1,"initial":"a","states":{"a":{}}}`, `id: expected a non-empty string, got 1`},
		{"version", `{"version":"1.2","initial":"a","states":{"a":{}}}`, `version: expected a whole number, such as "1", got "1.2"`},
		{"context", `{"context":{"n":"x"},"initial":"a","states":{"a":{}}}`, `context: expected a whole number of 64 bits under "n", got a string: the context type is xstatejson_test.counter`},
		{"machine key", `{"machine":1,"initial":"a","states":{"a":{}}}`, `machine: is not a key of a machine: expected id, type`},
		{"onDone at the root", `{"initial":"a","onDone":{},"states":{"a":{}}}`, `onDone: is not allowed at the root, because XState never takes it: a machine that is done has ended. Wrap the states in a compound state and put it there`},
		{"history at the root", `{"initial":"a","history":"deep","states":{"a":{}}}`, `history: is not allowed at the root, which is not a history state`},
		{"description of a transition", state(`{"on":{"E":{"description":1}}}`), `states.a.on.E.description: expected a string, got a number`},
		{"emit", state(`{"entry":{"type":"xstate.emit","event":"E"}}`), `states.a.entry: expected the key event, with an object that has a type, got "E"`},
		{"log", state(`{"entry":{"type":"xstate.log","value":{"a":1}}}`), `states.a.entry: expected the key value, with the text to log, got {"a":1}`},
		{"label", state(`{"entry":{"type":"xstate.log","value":"x","label":"y"}}`), `states.a.entry.label: is not a key of xstate.log: expected type, value; put it into value`},
		{"spawn without an ID", state(`{"entry":{"type":"xstate.spawnChild","src":"job"}}`), `states.a.entry: expected the key id, with the ID of the child`},
		{"spawn without src", state(`{"entry":{"type":"xstate.spawnChild","id":"x"}}`), `states.a.entry: expected the key src, with the ID of the child's machine`},
		{"snapshots of a child", state(`{"entry":{"type":"xstate.spawnChild","id":"x","src":"job","syncSnapshot":true}}`), `states.a.entry.syncSnapshot: expected false: snapshots of children are not supported`},
		{"stop", state(`{"entry":{"type":"xstate.stopChild"}}`), `states.a.entry: expected the key actorRef, with the ID of a child`},
		{"send", state(`{"entry":{"type":"xstate.sendTo","event":{"type":"E"}}}`), `states.a.entry: expected the key to, with the ID of a child`},
		{"send to the parent", state(`{"entry":{"type":"xstate.sendTo","to":"#_parent","event":{"type":"E"}}}`), `states.a.entry.to: expected the ID of a child, got "#_parent", which has another meaning in XState`},
		{"send later", state(`{"entry":{"type":"xstate.sendTo","to":"x","event":{"type":"E"},"delay":1}}`), `states.a.entry.delay: is not a key of xstate.sendTo: expected type, to, event`},
		{"child without src", state(`{"invoke":{"id":"x"},"meta":{"settle":{"invoke":[{"child":true}]}}}`), `states.a.invoke: expected the key src, with the ID of a machine`},
		{"child and service", state(`{"invoke":[{"id":"x","src":"greet"},{"id":"x","src":"job"}],"meta":{"settle":{"invoke":[{},{"child":true}]}}}`), `states.a.invoke[1]: expected different IDs for services and children, got "x" for both`},
		{"deferred", state(`{"meta":{"settle":{"defer":["settle.x",1]}}}`), `states.a["meta.settle.defer"][0]: expected an event type that does not begin with settle., got "settle.x"`},
		{"end of a child", state(`{"on":{"done.child.x":"b"}}`), `expected an event type that does not begin with done.child., got "done.child.x"`},
		{"states", `{"initial":"a","states":[]}`, `states: expected an object from key to state, got an array`},
		{"state", `{"initial":"a","states":{"a":{},"b":"x"}}`, `states.b: expected a state, which is an object, got a string`},
		{"key", `{"initial":"a","states":{"a":{},"":{}}}`, `states[""]: expected a key that is not empty`},
		{"keys with one ID", `{"initial":"a","states":{"a":{},"b/c":{},"b c":{}}}`, `states["b c"]: expected a key whose ID in the chart, "b_c", differs from the ID of "b/c": rename one of them`},
		{"route", state(`{"id":"x","route":"b"}`), `states.a.route: expected an object, such as {} or {"guard": ...}, got a string`},
		{"target of a route", state(`{"id":"x","route":{"target":"b"}}`), `states.a.route.target: is not a key of a route: expected guard, actions, meta, description`},
		{"route of the root", `{"id":"m","route":{}}`, `route: is not allowed at the root, which is always active`},
		{"deep", `{"initial":"x","states":{"x":` + deep + `}}`, `expected at most 32 levels of nested states (statechart.NestingDepthMax)`},
		{"unknown key", state(`{"onn":{}}`), `states.a.onn: is not a key of a state: ` + keys},
		{"key of XState 4", state(`{"activities":"x"}`), keys + `; XState v5 says invoke`},
		{"type", state(`{"type":"basic"}`), `states.a.type: expected atomic, compound, parallel, final or history, got "basic"`},
		{"type of states", state(`{"type":"final","states":{"x":{}}}`), `states.a.type: expected compound or parallel, because the state has states, got "final"`},
		{"ID", state(`{"id":""}`), `states.a.id: expected a non-empty string, got ""`},
		{"ID twice", `{"initial":"a","states":{"a":{"id":"x"},"b":{"id":"x"}}}`, `states.b.id: expected a unique ID, got "x"`},
		{"no initial", state(`{"states":{"x":{}}}`), `states.a: expected the key initial, with the key of a child`},
		{"initial", state(`{"initial":"y","states":{"x":{}}}`), `states.a.initial: expected the key of a child, got "y"`},
		{"initial target", state(`{"initial":{"actions":"inc"},"states":{"x":{}}}`), `states.a.initial.target: expected the key of a child, got nothing`},
		{"initial key", state(`{"initial":{"target":"x","guard":"even"},"states":{"x":{}}}`), `states.a.initial.guard: is not a key of an initial transition: expected target, actions, meta, description`},
		{"initial of none", state(`{"initial":"x"}`), `states.a.initial: expected none: only a compound state has an initial state`},
		{"history", state(`{"initial":"x","states":{"x":{},"h":{"history":"wide"}}}`), `states.a.states.h.history: expected shallow, deep or a boolean, got "wide"`},
		{"history target", state(`{"initial":"x","states":{"x":{},"h":{"history":"deep","target":"y"}}}`), `states.a.states.h.target: expected an existing state, not "y", got "y"`},
		{"tags", state(`{"tags":["x",1]}`), `states.a.tags[1]: expected a non-empty string, got 1`},
		{"description", state(`{"description":{}}`), `states.a.description: expected a string, got an object`},
		{"output", state(`{"output":1}`), `states.a.output: expected none: only a final state has an output`},
		{"on", state(`{"on":["E"]}`), `states.a.on: expected an object from event to transition, got an array`},
		{"no event", state(`{"on":{"":"b"}}`), `states.a.on[""]: expected an event; put a transition without one under always`},
		{"event of XState", state(`{"on":{"xstate.init":"b"}}`), `states.a.on["xstate.init"]: expected an event of the machine, or an event of XState that charts support: xstate.done.state.*, xstate.done.actor.*, xstate.error.actor.*; got "xstate.init"`},
		{"unknown state", state(`{"on":{"xstate.done.state.x":"b"}}`), `states.a.on["xstate.done.state.x"]: expected the ID of a state or of an invocation after the prefix, got "x"`},
		{"unknown actor", state(`{"on":{"xstate.done.actor.x":"b"}}`), `after the prefix, got "x"`},
		{"reserved event", state(`{"on":{"settle.x":"b"}}`), `states.a.on["settle.x"]: expected an event type that does not begin with settle., got "settle.x"`},
		{"transition", state(`{"on":{"E":1}}`), `states.a.on.E: expected a target, a transition or an array of them, got a number`},
		{"transition in an array", state(`{"on":{"E":["b",true]}}`), `states.a.on.E[1]: expected a target, a transition or an array of them, got a boolean`},
		{"transition key", state(`{"on":{"E":[{"gard":"even"}]}}`), `states.a.on.E[0].gard: is not a key of a transition: expected target, guard, actions, reenter, meta, description`},
		{"transition of XState 4", state(`{"on":{"E":{"cond":"even"}}}`), `; XState v5 says guard`},
		{"reenter", state(`{"on":{"E":{"reenter":1}}}`), `states.a.on.E.reenter: expected a boolean, got a number`},
		{"target", state(`{"on":{"E":{"target":["b",1]}}}`), `states.a.on.E.target[1]: expected a target such as "sibling", ".child" or "#id", got 1`},
		{"sibling", state(`{"on":{"E":"c"}}`), `states.a.on.E: expected an existing state, not "c", got "c"`},
		{"child", state(`{"on":{"E":".b"}}`), `states.a.on.E: expected an existing state, not "b", got ".b"`},
		{"by ID", state(`{"on":{"E":"#x.b"}}`), `states.a.on.E: expected the ID of a state after '#', got "#x.b"`},
		{"at root", `{"initial":"a","on":{"E":"a"},"states":{"a":{}}}`, `on.E: expected a target that begins with '.' or '#', because the root has no siblings, got "a"`},
		{"after", state(`{"after":"b"}`), `states.a.after: expected an object from delay to transition, got a string`},
		{"negative after", state(`{"after":{"-1":"b"}}`), `states.a.after.-1: expected a non-negative delay in milliseconds, got "-1"`},
		{"long after", state(`{"after":{"1e300":"b"}}`), `expected a non-negative delay in milliseconds, got "1e300"`},
		{"infinite after", state(`{"after":{"1e999":"b"}}`), `expected milliseconds or an implemented delay, got "1e999"`},
		{"named after", state(`{"after":{"soon":"b"}}`), `states.a.after.soon: expected milliseconds or an implemented delay, got "soon"`},
		{"string in after", state(`{"after":{"1":["b"]}}`), `states.a.after.1: expected objects in the array, because XState accepts no strings there, got "b"`},
		{"invoke", state(`{"invoke":["x"]}`), `states.a.invoke[0]: expected an object with the key src, got a string`},
		{"invoke key", state(`{"invoke":{"src":"greet","timeout":1}}`), `states.a.invoke.timeout: is not a key of an invocation: expected id, src, input, onDone, onError, onSnapshot, systemId`},
		{"no src", state(`{"invoke":{}}`), `states.a.invoke: expected the key src, with the name of a service`},
		{"src", state(`{"invoke":{"src":{}}}`), `states.a.invoke.src: expected a non-empty string, got {}`},
		{"unknown src", state(`{"invoke":{"src":"x"}}`), `states.a.invoke.src: expected an implemented service, got "x"`},
		{"refused service", state(`{"invoke":{"src":"greet","input":"refused"}}`), `states.a.invoke: the service "greet": refused`},
		{"invoke ID", state(`{"invoke":{"src":"greet","id":7}}`), `states.a.invoke.id: expected a non-empty string, got 7`},
		{"action", state(`{"entry":[1]}`), `states.a.entry[0]: expected the name of an action, or an object with the key type, got 1`},
		{"action type", state(`{"entry":{"type":{}}}`), `states.a.entry.type: expected the name of an action, or an object with the key type, got {}`},
		{"no action type", state(`{"entry":{"params":{}}}`), `states.a.entry: expected the key type, with the name of an action`},
		{"action key", state(`{"entry":{"type":"inc","parms":1}}`), `states.a.entry.parms: is not a key of an action: expected type, params`},
		{"unknown action", state(`{"exit":"x"}`), `states.a.exit: expected an implemented action, got "x"`},
		{"failing action", state(`{"entry":"fails"}`), `states.a.entry: the action "fails": expected params`},
		{"action of XState", state(`{"entry":{"type":"xstate.assign"}}`), `states.a.entry: expected the name of an action, or an object whose type is one of xstate.cancel, xstate.emit, xstate.log, xstate.raise, xstate.sendTo, xstate.spawnChild, xstate.stopChild, got "xstate.assign"`},
		{"raise", state(`{"entry":{"type":"xstate.raise"}}`), `states.a.entry: expected the key event, with an object that has a type, got nothing`},
		{"raise a string", state(`{"entry":{"type":"xstate.raise","event":"E"}}`), `expected the key event, with an object that has a type, got "E"`},
		{"raise XState's", state(`{"entry":{"type":"xstate.raise","event":{"type":"xstate.init"}}}`), `states.a.entry.event: expected an event of the machine, not of XState, got "xstate.init"`},
		{"raise key", state(`{"entry":{"type":"xstate.raise","event":{"type":"E"},"to":1}}`), `states.a.entry.to: is not a key of xstate.raise: expected type, event, delay, id`},
		{"raise delay", state(`{"entry":{"type":"xstate.raise","event":{"type":"E"},"delay":-1}}`), `states.a.entry.delay: expected non-negative milliseconds or the name of an implemented delay, got -1`},
		{"raise ID", state(`{"entry":{"type":"xstate.raise","event":{"type":"E"},"delay":1,"id":1}}`), `states.a.entry.id: expected a non-empty string, got 1`},
		{"cancel", state(`{"entry":{"type":"xstate.cancel"}}`), `states.a.entry: expected the key sendId, with the ID of the event to cancel`},
		{"guard", guarded(`[]`), `states.a.always.guard: expected the name of a guard, or an object with the key type, got []`},
		{"unknown guard", guarded(`"x"`), `states.a.always.guard: expected an implemented guard, got "x"`},
		{"failing guard", guarded(`"fails"`), `states.a.always.guard: the guard "fails": expected params`},
		{"guard of XState", guarded(`"xstate.and"`), `expected the name of a guard, xstate.stateIn, or xstate.and, xstate.or and xstate.not with the key guards, got "xstate.and"`},
		{"guards", guarded(`{"type":"and","guards":{}}`), `states.a.always.guard.guards: expected an array of guards, got an object`},
		{"operator", guarded(`{"type":"xor","guards":[]}`), `states.a.always.guard: expected xstate.and, xstate.or or xstate.not, which have the key guards, got "xstate.xor"`},
		{"not", guarded(`{"type":"not","guards":[]}`), `states.a.always.guard.guards: expected one guard, got 0`},
		{"inner guard", guarded(`{"type":"or","guards":["even","x"]}`), `states.a.always.guard.guards[1]: expected an implemented guard, got "x"`},
		{"stateIn", guarded(`{"type":"xstate.stateIn"}`), `states.a.always.guard.stateValue: expected "#id", a path, or an object from key to state value, got nothing`},
		{"stateIn unknown", guarded(`{"type":"xstate.stateIn","stateValue":"x"}`), `states.a.always.guard.stateValue: expected an existing state, not "x", got "x"`},
		{"stateIn key", guarded(`{"type":"xstate.stateIn","stateValue":{"x":{}}}`), `states.a.always.guard.stateValue: expected the key of a state, got "x"`},
		{"stateIn value", guarded(`{"type":"xstate.stateIn","stateValue":{"a":1}}`), `states.a.always.guard.stateValue.a: expected a state value, got a number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := xstatejson.Read([]byte(c.config), withServices())
			var failure *xstatejson.Error
			if !errors.As(err, &failure) || len(failure.Problems) == 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	t.Parallel()
	_, err := xstatejson.Read([]byte(state(`{"onn":1,"entry":"x","on":{"E":[{"gard":"even"},"c"]}}`)), withServices())
	const want = `reading an XState machine: 4 problems:
  states.a.onn: is not a key of a state: expected id, type, initial, states, on, always, after, invoke, onDone, entry, exit, history, target, tags, meta, description, output, route
  states.a.entry: expected an implemented action, got "x"
  states.a.on.E[0].gard: is not a key of a transition: expected target, guard, actions, reenter, meta, description
  states.a.on.E[1]: expected an existing state, not "c", got "c"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestAConfigRuns runs a config, and checks the context, the payloads, the output and the delays.
func TestAConfigRuns(t *testing.T) {
	t.Parallel()
	impl := implementations()
	impl.Actions["keep"] = func(json.RawMessage) (statechart.Action[counter], error) {
		return statechart.Assign("keep", func(c *counter, e json.RawMessage) { c.Log = append(c.Log, string(e)) }), nil
	}
	impl.Payloads = statechart.Payloads{"listed": statechart.NoPayload()}
	def, err := xstatejson.Read([]byte(`{"id":"m","context":{"n":7,"log":["first"]},"output":{"whole":1},"initial":"a","states":{
		"a":{"tags":"settled","on":{"E":{"actions":["keep",{"type":"xstate.raise","event":{"type":"F","y":2}},{"type":"xstate.raise","event":{"type":"G"},"delay":"brief"}]},"F":{"actions":"keep"},"G":"b"}},
		"b":{"type":"final","output":{"n":1}}}}`), impl)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	if events := fmt.Sprint(chart.Events()); events != "[E F G listed]" {
		t.Errorf("declared are %s", events)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil || step.Next.Context.N != 7 {
		t.Fatalf("%v, context %+v", err, step.Next.Context)
	}
	event, err := chart.Decode([]byte(`{"type":"E","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	event.At = epoch
	if step, err = chart.Step(step.Next, event); err != nil {
		t.Fatal(err)
	}
	if got, want := text(step.Next.Context.Log), `["first","{\"type\":\"E\",\"x\":1}","{\"type\":\"F\",\"y\":2}"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	timer := step.Next.Timers[0]
	if due := timer.At.Sub(epoch); due != 20*time.Millisecond {
		t.Errorf("G is due in %v", due)
	}
	step, err = chart.Step(step.Next, statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID, At: timer.At})
	if err != nil || step.Next.Status != statechart.Done || string(step.Next.Output) != `{"whole":1}` {
		t.Errorf("%v, %s with %s", err, step.Next.Status, step.Next.Output)
	}
}
