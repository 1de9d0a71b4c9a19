package xstatejson_test

import (
	"errors"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// FuzzRead checks that Read and Foreign accept or reject every input without a panic. Every chart that compiles must be
// writable, and reading and writing the text again must give the same text.
func FuzzRead(f *testing.F) {
	for _, a := range []string{`{"on":{"*":"b","E":{}},"after":{"brief":[{},{}],"0":"b","1.5":"b"}}`, `{"invoke":[{"src":"greet","id":"g"}],"meta":{"settle":{"invoke":[{"timeout":1}],"after":{"x":1}}}}`, `{"entry":{"type":"xstate.raise","event":{"type":"E"},"delay":1}}`, `{"initial":"x","states":{"x":{"type":"final"},"h":{"history":"deep"}},"onDone":{"guard":{"type":"not","guards":["even"]}}}`} {
		f.Add([]byte(state(a)))
	}
	for _, config := range []string{
		`{"types":{},"tags":"settled","invoke":{"src":"greet","systemId":"s","onSnapshot":{}},"on":{"a.*.b":{},"xstate.route":{}}}`,
		`{"initial":"a b","states":{"a b":{"id":"x","route":{"guard":"even"},"on":{"E":"c\\.d","F":"#(machine)"}},"c.d":{"route":{}}}}`,
		`{"id":"m","initial":"a","tags":["t"],"context":{"n":1},"output":2,"meta":{"x":1,"settle":{"defer":["E","F.*"],"children":["y"]}},"always":{"guard":"even","target":".a"},"invoke":[{"src":"greet"},{"src":"job","input":1,"onDone":".a"}],"states":{"a":{"meta":"text"}}}`,
		`{"id":"m","initial":"a","states":{"a":{"invoke":[{"src":"job"},{"src":"greet"}],"meta":{"settle":{"invoke":[{"child":true}]}},"entry":[{"type":"xstate.spawnChild","id":"w","src":"job","input":{}},{"type":"xstate.sendTo","to":"w","event":{"type":"E"}},{"type":"xstate.emit","event":{"type":"E"}},{"type":"xstate.log","value":"x"},{"type":"xstate.stopChild","actorRef":"w"}],"on":{"xstate.done.actor.*":{},"xstate.error.actor.w":{},"xstate.done.actor.0.m.a":{}}}}}`,
	} {
		f.Add([]byte(config))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		def, err := xstatejson.Read(config, withServices())
		if err != nil {
			var failure *xstatejson.Error
			if !errors.As(err, &failure) || len(failure.Problems) == 0 || failure.Error() == "" {
				t.Fatalf("Read failed with %#v", err)
			}
			return
		}
		chart, err := xstatejson.Foreign(def)
		if err != nil {
			var failure *statechart.DefinitionError
			if !errors.As(err, &failure) {
				t.Fatalf("Foreign failed with %#v", err)
			}
			return
		}
		first, err := xstatejson.Write(chart)
		if err != nil {
			var failure *xstatejson.Error
			if !errors.As(err, &failure) {
				t.Fatalf("Write failed with %#v", err)
			}
			return
		}
		if def, err = xstatejson.Read(first, withServices()); err != nil {
			t.Fatalf("the output of Write is not readable: %v\n%s", err, first)
		}
		if chart, err = xstatejson.Foreign(def); err != nil {
			t.Fatalf("the output of Write does not compile: %v\n%s", err, first)
		}
		if second, err := xstatejson.Write(chart); err != nil || string(second) != string(first) {
			t.Fatalf("%v: written again, it is\n%s\nnot\n%s", err, second, first)
		}
	})
}

// FuzzReadSnapshot checks that ReadSnapshot accepts or rejects every input without a panic, and that WriteSnapshot can
// write each accepted snapshot without services.
func FuzzReadSnapshot(f *testing.F) {
	chart, _ := begun(f, recalling, implementations())
	f.Add([]byte(`{"status":"active","value":{"off":{"p":{},"q":"z"}},"context":{},"historyValue":{"m.on.all":[{"id":"m.on.y.deep"}]},"timers":{"t":{"delay":1e300,"event":{"type":"xstate.after","delay":500,"stateId":"m.off"},"target":"self","startedAt":-1e300}}}`))
	f.Fuzz(func(t *testing.T, persisted []byte) {
		snapshot, err := xstatejson.ReadSnapshot(chart, persisted, epoch)
		if err != nil {
			return
		}
		if written, err := xstatejson.WriteSnapshot(chart, snapshot); err != nil {
			t.Fatalf("%v: %s", err, persisted)
		} else if _, err := xstatejson.ReadSnapshot(chart, written, epoch); err != nil {
			t.Fatalf("%v: %s", err, written)
		}
	})
}
