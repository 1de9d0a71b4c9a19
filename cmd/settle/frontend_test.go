package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/cmd/settle/command"
)

// pageFile matches a file in a page of docs.
var pageFile = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```\\w+\n(.*?)```\n")

// newFrontEnd returns a folder with the source files in the given pages of docs, and the npm packages that these files
// import. `xstate` is the package in testdata/npm to install under the name xstate.
func newFrontEnd(t *testing.T, xstate string, pages ...string) string {
	t.Helper()
	packages, err := filepath.Abs("testdata/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(packages, xstate)); os.IsNotExist(err) && os.Getenv("CI") == "" {
		t.Skip(xstate + " is not installed: `make test` installs it")
	}
	folder := t.TempDir()
	files := map[string]string{"package.json": `{"type": "module"}`}
	for _, page := range pages {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range pageFile.FindAllStringSubmatch(string(text), -1) {
			files[file[1]] = file[2]
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Vite writes into node_modules, so each front end has its own folder.
	if err := os.Mkdir(filepath.Join(folder, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"xstate": xstate, "@types": "@types", "tsx": "tsx", "typescript": "typescript", "vite": "vite"} {
		if err := os.Symlink(filepath.Join(packages, target), filepath.Join(folder, "node_modules", name)); err != nil {
			t.Fatal(err)
		}
	}
	chart := user{t: t, config: settle()}.must("graph", "signup", "--format", "xstate")
	if err := os.WriteFile(filepath.Join(folder, "signup.json"), []byte(chart), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// startNode runs node in a front end's folder. It returns the process and its output.
func startNode(t *testing.T, folder, gateway string, args ...string) (*exec.Cmd, screen) {
	t.Helper()
	printed := newScreen(t.Context())
	process := exec.CommandContext(t.Context(), "node", args...)
	process.Dir, process.Env = folder, append(process.Environ(), "GATEWAY="+gateway, "NO_COLOR=1")
	process.Stdout, process.Stderr = printed, printed
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	return process, printed
}

func TestFilesOfXStateFrontEndsHaveTheRightTypes(t *testing.T) {
	t.Parallel()
	for xstate, pages := range map[string][]string{"xstate": {"xstate-front-end.md"}, "xstate-6": {"xstate-front-end.md", "xstate-durable.md"}} {
		t.Run(xstate, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && xstate != "xstate-6" {
				t.Skip("-short: make check checks the types of XState 5 too")
			}
			folder := newFrontEnd(t, xstate, pages...)
			files, err := filepath.Glob(filepath.Join(folder, "*.ts"))
			if err != nil || len(files) < 2 {
				t.Fatalf("expected files of TypeScript, got %v and %v", files, err)
			}
			check := exec.CommandContext(t.Context(), "node", append([]string{
				"node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--noUnusedLocals", "--skipLibCheck", "--target", "es2022",
				"--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions", "--resolveJsonModule",
				"--lib", "es2023,dom,dom.iterable,dom.asynciterable", "--types", "node",
			}, files...)...)
			check.Dir = folder
			if printed, err := check.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, printed)
			}
		})
	}
}

// frontEndDriver calls the functions of settle.ts. It prints their results and the delays that they request.
const frontEndDriver = `import { follow, send } from './settle.ts';
const gateway = process.env.GATEWAY!;
const timer = setTimeout;
Math.random = () => 1;
globalThis.setTimeout = ((run: () => void, wait: number, ...args: any[]) => {
  if (!new Error().stack!.includes('settle.ts')) return timer(run, wait, ...args); // a timer of Node
  console.log('wait', wait);
  return timer(run, 0);
}) as any;
const show = (what: string, instance?: any) => console.log(what, instance && instance.status + ' ' + instance.revision + (instance.event_ignored ? ' ignored' : ''));
const refused = (e: any) => console.log('refused', e.status, e.code, e.message);
for (let i = 0; i < 4; i++) await send(gateway, 'lamp/a#1', { type: 'ON' }, { id: 'id-' + i }).then((after) => show('sent', after), refused);
for await (const instance of follow(gateway, 'lamp/1')) show('follow', instance);
for await (const instance of follow(gateway, 'lamp/1', AbortSignal.timeout(60_000))) { show('follow', instance); break; }
await follow(gateway, 'lump/1').next().catch(refused);
await follow(gateway, 'lamp/1', AbortSignal.abort('stopped')).next().catch((e) => console.log('aborted', e));
await send('no address', 'lamp/1', { type: 'ON' }).catch((e) => console.log(e.constructor.name));
`

// The server gives each answer once, in this order. Status 0 breaks the connection.
func TestAnXStateFrontEndRepeatsItsRequestsAndReportsRefusals(t *testing.T) {
	t.Parallel()
	const on, missing = `{"status": "active", "revision": 1}`, `{"code": "unknown_instance", "detail": "no instance"}`
	answers := []struct {
		status       int
		header, body string
	}{
		{0, "", ""}, {429, "Retry-After: 7", `{"code": "behind"}`}, {502, "", "<html>"}, {200, "", on},
		{400, "", `{"code": "payload", "detail": "wrong payload"}`},
		{202, "", `{"message_id": "1"}`},
		{200, "", `{"status": "active", "revision": 1, "event_ignored": true}`},
		{404, "", missing},
		{404, "", missing},
		{200, `ETag: "1-a"`, on},
		{304, `ETag: "1-a"`, ""},
		{0, "", ""},
		{200, `ETag: "2-b"`, `{"status": "done", "revision": 2}`},
		{200, `ETag: "2-b"`, on},
		{404, "", "<html>"},
	}
	var asked strings.Builder
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintln(&asked, strings.Join(strings.Fields(fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Idempotency-Key"), " ", r.Header.Get("If-None-Match"), " ", string(body))), " "))
		if len(answers) == 0 || answers[0].status == 0 {
			answers = answers[min(1, len(answers)):]
			panic(http.ErrAbortHandler)
		}
		answer := answers[0]
		answers = answers[1:]
		if name, value, ok := strings.Cut(answer.header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	}))
	defer gateway.Close()
	folder := newFrontEnd(t, "xstate", "xstate-front-end.md")
	if err := os.WriteFile(filepath.Join(folder, "driver.ts"), []byte(frontEndDriver), 0o600); err != nil {
		t.Fatal(err)
	}
	driver, printed := startNode(t, folder, gateway.URL, "--import", "tsx", "driver.ts")
	lines := printed.await(t, "TypeError")
	if err := driver.Wait(); err != nil {
		t.Error(err)
	}
	const wantPrinted = `wait 500
wait 7000
wait 2000
sent active 1
refused 400 payload wrong payload
sent undefined
sent active 1 ignored
follow undefined
wait 1000
wait 1500
follow active 1
wait 1000
wait 1500
wait 500
follow done 2
follow active 1
refused 404  404 Not Found
aborted stopped
TypeError`
	if diff := cmp.Diff(wantPrinted, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	const post, get = `POST /instances/lamp/a%231/events?wait=settled `, "GET /instances/lamp/1"
	wantAsked := strings.Repeat(post+`id-0 {"type":"ON"}`+"\n", 4)
	for i := 1; i < 4; i++ {
		wantAsked += post + fmt.Sprintf(`id-%d {"type":"ON"}`, i) + "\n"
	}
	wantAsked += strings.Repeat(get+"\n", 3) + strings.Repeat(get+` "1-a"`+"\n", 3) + get + "\nGET /instances/lump/1\n"
	if diff := cmp.Diff(wantAsked, asked.String()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The first process sends its event and dies before it journals the event. The second process sends the event again.
func TestADurableExecutionOfXStateContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	dev := startDev(t)
	go func() {
		for range dev.screen.lines { // dev waits until its lines are read
		}
	}()
	folder := newFrontEnd(t, "xstate-6", "xstate-front-end.md", "xstate-durable.md")
	enrol := func(email string) (*exec.Cmd, screen) {
		return startNode(t, folder, dev.gateway, "--import", "tsx", "enrol.ts", email, "Ada")
	}
	first, printed := enrol("ada@example.com")
	printed.await(t, "{ unverified: 'awaiting_verification' }")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // The process was killed.
	journal := filepath.Join(folder, "journal.jsonl")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	left := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, `["0:1",`) })
	if len(left) != len(lines)-1 {
		t.Fatalf("expected the effect 0:1 in the journal, got %s", text)
	}
	if err := os.WriteFile(journal, []byte(strings.Join(left, "\n")+"\n"+`["9:`), 0o600); err != nil { // A crash left an incomplete line.
		t.Fatal(err)
	}
	_, printed = enrol("ada@example.com")
	printed.await(t, "{ unverified: 'awaiting_verification' }")
	if code, errOut := dev.settle(t, "send", "--local", "signup/77", "CANCEL"); code != command.ExitDone {
		t.Fatalf("expected exit code 0, got %d and %q", code, errOut)
	}
	printed.await(t, "cancelled")
	response, err := http.Get(dev.gateway + "/instances/signup/77")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), `"ignored":0`) {
		t.Errorf("expected one SIGN_UP, got %s and %v", body, err)
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	_, printed = enrol("no-address")
	printed.await(t, `wrong payload: event "SIGN_UP" of chart signup`)
	dev.end(t)
}

// delayDriver starts a machine with a delay of an hour. It changes the deadline in the journal to the present, and runs the
// machine again.
const delayDriver = `import { createMachine } from 'xstate';
import { runOnSettle } from './settlehost.ts';
const machine = createMachine({
  id: 'patient', initial: 'waiting',
  states: { waiting: { after: { 3_600_000: 'late' } }, late: { type: 'final' } },
  output: () => 'the delay has ended',
});
const journal = new Map<string, any>();
const run = () => runOnSettle(machine, undefined, { gateway: 'http://127.0.0.1', executionId: '1', journal: journal as any });
void run();
while (![...journal.values()].some((entry) => entry.value > Date.now() + 3_000_000)) await new Promise((resolve) => setTimeout(resolve, 1));
for (const entry of journal.values()) entry.value = Date.now();
console.log(await run());
process.exit();
`

func TestADelayOfADurableExecutionOfXStateKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	folder := newFrontEnd(t, "xstate-6", "xstate-front-end.md", "xstate-durable.md")
	if err := os.WriteFile(filepath.Join(folder, "driver.ts"), []byte(delayDriver), 0o600); err != nil {
		t.Fatal(err)
	}
	_, printed := startNode(t, folder, "", "--import", "tsx", "driver.ts")
	printed.await(t, "the delay has ended")
}

func TestABrowserShowsASignUpInAnXStateFrontEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: make check and make test-browser run the tests that start a browser")
	}
	for _, xstate := range []string{"xstate", "xstate-6"} {
		t.Run(xstate, func(t *testing.T) {
			t.Parallel()
			dev, mailed := startDev(t), make(chan string, 2)
			go func() {
				for line := range dev.screen.lines { // dev waits until its lines are read
					if _, code, ok := strings.Cut(line, " to=ada@example.com code="); ok {
						mailed <- code
					}
				}
			}()
			_, printed := startNode(t, newFrontEnd(t, xstate, "xstate-front-end.md"), dev.gateway, "node_modules/vite/bin/vite.js", "--host", "127.0.0.1")
			local := printed.await(t, "Local:")
			_, address, _ := strings.Cut(local[len(local)-1], "Local:")
			options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
			ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
			defer stop()
			ctx, stop = chromedp.NewContext(ctx)
			defer stop()
			do := func(steps ...chromedp.Action[chromedp.Void]) {
				t.Helper()
				err := chromedp.Do(ctx, steps...)
				if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true" {
					t.Skip("no Chrome or Chromium on this machine, and CI=true is not set")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			// shows waits until the page shows exactly this text, without the context of the instance.
			shows := func(want ...string) {
				t.Helper()
				var got string
				for range 2400 {
					var err error
					got, err = chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText.replace(document.querySelector("#context").innerText, "").replace(/\s+/g, " ").trim()`))
					if err != nil {
						t.Fatal(err)
					}
					if got == strings.Join(want, " ") {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
				t.Fatalf("expected the page to show %q, got %q", strings.Join(want, " "), got)
			}
			fill := func(form string, values map[string]string) {
				t.Helper()
				for name, value := range values {
					do(chromedp.Focus(chromedp.CSS("#"+form+" [name="+name+"]")), chromedp.KeyEvent(value))
				}
				do(chromedp.Click(chromedp.CSS("#" + form + " button")))
			}
			do(chromedp.Navigate(strings.TrimSpace(address)))
			shows(`State: "new"`, "Sign up")
			fill("SIGN_UP", map[string]string{"email": "ada@example.com", "name": strings.Repeat("A", 201)})
			shows(`State: "new"`, "Sign up", `wrong payload: event "SIGN_UP" of chart signup: expected a name of 1 to 200 bytes, got 201`)
			do(chromedp.Navigate(strings.TrimSpace(address)))
			shows(`State: "new"`, "Sign up")
			fill("SIGN_UP", map[string]string{"email": "ada@example.com", "name": "Ada"})
			waiting := []string{`State: {"unverified":"awaiting_verification"}`, "Verify", "A code is in your mail.", "Send the code again", "Cancel"}
			shows(waiting...)
			<-mailed
			fill("RESEND", nil)
			if code, errOut := dev.settle(t, "send", "--local", "signup/42", "VERIFY", "code="+<-mailed); code != command.ExitDone {
				t.Fatalf("expected exit code 0, got %d and %q", code, errOut)
			}
			shows(`State: "active"`)
			do(chromedp.Navigate(strings.TrimSpace(address)))
			shows(`State: "active"`)
			dev.end(t)
		})
	}
}
