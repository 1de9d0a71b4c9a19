// The console's pages work without this script. It follows the store, counts time, and marks the chart.
import { Chart } from "./chart.js";
import { tick, setNow } from "./clock.js";

const body = document.body;
const part = (name) => document.querySelector(`[data-part="${name}"]`);
const chart = document.querySelector(".canvas svg") && new Chart(document.querySelector(".chart"));

setNow(Date.parse(body.dataset.now));
chart?.read();
tick();
setInterval(tick, 1000);

// The table of the timeline selects a transition. Its number is in the address, so that the page can be loaded again.
const at = document.querySelector("#at");
const rows = () => [...document.querySelectorAll("tr[data-number]")]; // the newest first

function travel(number) {
  const all = rows();
  const chosen = all.find((row) => Number(row.dataset.number) === number);
  const present = !chosen || chosen === all[0];
  const address = new URL(location);
  if (present) address.searchParams.delete("at");
  else address.searchParams.set("at", number);
  history.replaceState(null, "", address);
  at.textContent = present ? "" : `after transition ${number}`;
  show();
}

function show() {
  const number = Number(new URL(location).searchParams.get("at"));
  const all = rows();
  const chosen = number && all.find((row) => Number(row.dataset.number) === number);
  for (const row of all) {
    if (row === (chosen || all[0])) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  if (!chart) return;
  if (!chosen) {
    chart.read();
    return;
  }
  chart.shown = undefined;
  const { active, visited } = JSON.parse(chosen.dataset.marks);
  const earlier = all.slice(all.indexOf(chosen));
  chart.mark({ active, visited, taken: earlier.flatMap((row) => JSON.parse(row.dataset.marks).taken ?? []) });
}

function step(by) {
  if (by === "now") return travel(0);
  const all = rows();
  const current = all.findIndex((row) => row.hasAttribute("aria-current"));
  const next = all[Math.min(all.length - 1, Math.max(0, current - Number(by)))];
  if (next) travel(Number(next.dataset.number));
}

if (at) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-step]");
    const link = event.target.closest("tr[data-number] a[href^='?at=']");
    if (button) step(button.dataset.step);
    if (link) {
      event.preventDefault();
      travel(Number(link.closest("tr").dataset.number));
    }
  });
  document.addEventListener("keydown", (event) => {
    // Many keyboard layouts have brackets on AltGr, which some systems report as Ctrl and Alt, or on Option.
    if (event.target.closest("input, select, textarea") || event.metaKey || event.ctrlKey && !event.getModifierState("AltGraph")) return;
    if (event.key === "[") step(-1);
    if (event.key === "]") step(1);
  });
  const highlight = (event) => {
    const row = event.target.closest("tr[data-number]");
    chart?.highlight(row && event.type !== "mouseout" && event.type !== "focusout" ? JSON.parse(row.dataset.marks).taken ?? [] : []);
  };
  for (const type of ["mouseover", "mouseout", "focusin", "focusout"]) part("instance-timeline").addEventListener(type, highlight);
  show();
}

// replace puts new HTML into a part. Opened details stay open, the focus stays, and changed values are marked.
function replace(element, html) {
  const closed = new Map([...element.querySelectorAll("details[data-key]")].map((d) => [d.dataset.key, d.open]));
  const before = new Map([...element.querySelectorAll("[data-leaf]")].map((l) => [l.dataset.leaf, l.textContent]));
  const focused = element.contains(document.activeElement) && pathOf(document.activeElement);
  element.innerHTML = html;
  for (const d of element.querySelectorAll("details[data-key]")) d.open = closed.get(d.dataset.key) ?? d.open;
  if (before.size > 0) {
    for (const l of element.querySelectorAll("[data-leaf]")) l.classList.toggle("changed", before.get(l.dataset.leaf) !== l.textContent);
  }
  if (focused) element.querySelector(focused)?.focus();
}

// pathOf returns a selector that finds the same link or summary in new HTML.
function pathOf(focused) {
  if (focused.matches("summary")) return `[data-key="${CSS.escape(focused.parentElement.dataset.key)}"] > summary`;
  return focused.hasAttribute("href") && `[href="${CSS.escape(focused.getAttribute("href"))}"]`;
}

// The stream. A hidden page closes it: browsers allow a server six connections over HTTP/1.1.
const status = document.querySelector("#status");
const connection = document.querySelector("#connection");
const problem = document.querySelector("#problem");
const latest = new Map();
let source;
let shown = Date.parse(body.dataset.now); // the time of what the page shows

// say shows the state of the connection. Screen readers announce a change of the state.
function say(text, state) {
  if (status.textContent !== text) status.textContent = text;
  if (status.dataset.state && status.dataset.state !== state) connection.textContent = state === "good" ? "following again" : text;
  status.dataset.state = state;
}

function receive(event) {
  const { now, read, every, parts = {}, problem: failed = "" } = JSON.parse(event.data);
  setNow(now);
  shown = read;
  say(failed ? "cannot read" : "live", failed ? "bad" : "good");
  status.title = `reads every ${every}`;
  problem.hidden = !failed;
  if (problem.textContent !== failed) problem.textContent = failed;
  for (const [name, html] of Object.entries(parts)) {
    const element = part(name);
    if (!element || latest.get(name) === html) continue;
    const first = !latest.has(name);
    latest.set(name, html);
    const parsed = document.createElement(element.tagName);
    parsed.innerHTML = html;
    if (first && !differs(element, parsed)) continue;
    replace(element, html);
  }
  for (const time of document.querySelectorAll("[data-counted]")) time.dateTime = new Date(read).toISOString();
  tick();
  if (at) show();
  else chart?.read();
}

// differs compares without the texts that this script has written.
function differs(a, b) {
  const plain = (element) => {
    const copy = element.cloneNode(true);
    for (const time of copy.querySelectorAll("time")) time.textContent = time.dateTime;
    for (const row of copy.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
    for (const bar of copy.querySelectorAll("progress")) for (const name of ["value", "max"]) bar.removeAttribute(name);
    return copy.innerHTML;
  };
  return plain(a) !== plain(b);
}

function connect() {
  if (source || !body.dataset.live || document.hidden) return;
  const live = new URL(body.dataset.live, location);
  live.searchParams.set("since", shown);
  source = new EventSource(live);
  source.onmessage = receive;
  source.onerror = () => {
    say("reconnecting", "bad");
    if (source.readyState === EventSource.CLOSED) { // The browser gives up after an answer with an error.
      disconnect();
      setTimeout(connect, 5000);
    }
  };
}

function disconnect() {
  source?.close();
  source = undefined;
}

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
connect();

// Buttons that copy a text. Browsers have a clipboard only for localhost and HTTPS.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy the text below by hand";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
