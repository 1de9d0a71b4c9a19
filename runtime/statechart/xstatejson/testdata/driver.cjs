// Runs machines on XState for the oracle of the tests.
//
// Every line of the input is {"config", "events", "patches"}, and every line of the output
// {"steps": [{"value", "log", "tags", "status"}, ...], "emitted", "logged", "received"}, or {"steps", "error"}. The first
// step is the start. received holds the input of the actor "listener" and the events sent to it. An event is {"type"},
// {"advance": milliseconds}, {"stop": true} or {"end": whether successfully}, which ends the only running actor. A patch is
// {"find", "replace"} in the source of XState, which is loaded once per list of patches.
//
// With "parity", every name has an implementation: actions log their names, guards are true if the sum of the characters
// of their name has this parity, delays are 30 ms, and actors run until an event ends them.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const Module = require('node:module');

const entry = Module.createRequire(path.join(__dirname, 'npm', 'package.json')).resolve('xstate');
const home = path.dirname(entry);
const loaded = new Map();

function load(patches) {
  const key = JSON.stringify(patches);
  if (loaded.has(key)) return loaded.get(key);
  for (const file of Object.keys(require.cache)) if (file.startsWith(home)) delete require.cache[file];
  const compile = Module._extensions['.js'];
  const used = patches.map(() => false);
  Module._extensions['.js'] = (module, file) => {
    if (!file.startsWith(home)) return compile(module, file);
    let text = fs.readFileSync(file, 'utf8');
    patches.forEach((patch, i) => {
      const parts = text.split(patch.find);
      if (parts.length > 1) used[i] = true;
      text = parts.join(patch.replace);
    });
    module._compile(text, file);
  };
  try {
    const xstate = require(entry);
    used.forEach((found, i) => { if (!found) throw new Error('patch without effect: ' + patches[i].find); });
    loaded.set(key, xstate);
    return xstate;
  } finally {
    Module._extensions['.js'] = compile;
  }
}

// Clock fires due timers in the order of their deadlines, then of their creation.
class Clock {
  constructor() { this.now = 0; this.next = 0; this.waiting = new Map(); }
  setTimeout(fn, delay) { const id = this.next++; this.waiting.set(id, { id, due: this.now + delay, fn }); return id; }
  clearTimeout(id) { this.waiting.delete(id); }
  advance(ms) {
    const until = this.now + ms;
    for (;;) {
      let first;
      for (const t of this.waiting.values()) {
        if (t.due <= until && (!first || t.due < first.due || t.due === first.due && t.id < first.id)) first = t;
      }
      if (!first) break;
      this.waiting.delete(first.id);
      this.now = first.due;
      first.fn();
    }
    this.now = until;
  }
}

// revive converts the JSON form of XState's builtins to the builtins.
function reviver({ raise, cancel, emit, log, spawnChild, stopChild, sendTo, and, or, not, stateIn }) {
  const list = x => x === undefined ? [] : Array.isArray(x) ? x : [x];
  const action = a => a.type === 'xstate.raise' ? raise(a.event, { delay: a.delay, id: a.id })
    : a.type === 'xstate.cancel' ? cancel(a.sendId)
    : a.type === 'xstate.emit' ? emit(a.event)
    : a.type === 'xstate.log' ? log(a.value)
    : a.type === 'xstate.spawnChild' ? spawnChild(a.src, { id: a.id, input: a.input })
    : a.type === 'xstate.stopChild' ? stopChild(a.actorRef)
    : a.type === 'xstate.sendTo' ? sendTo(a.to, a.event) : a;
  const guard = g => g === undefined || typeof g === 'string' ? g
    : g.type === 'xstate.and' ? and(g.guards.map(guard))
    : g.type === 'xstate.or' ? or(g.guards.map(guard))
    : g.type === 'xstate.not' ? not(guard(g.guards[0]))
    : g.type === 'xstate.stateIn' ? stateIn(g.stateValue) : g;
  const transition = t => t === null ? undefined : typeof t !== 'object' ? t
    : Array.isArray(t) ? t.map(transition)
    : { ...t, ...(t.guard && { guard: guard(t.guard) }), ...(t.actions && { actions: list(t.actions).map(action) }) };
  const each = (o, fn) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, fn(v)]));
  const invoke = i => ({ ...i, ...(i.onDone && { onDone: transition(i.onDone) }), ...(i.onError && { onError: transition(i.onError) }),
    ...(i.onSnapshot && { onSnapshot: transition(i.onSnapshot) }) });
  return function state(s) {
    const made = { ...s };
    for (const key of ['entry', 'exit']) if (s[key]) made[key] = list(s[key]).map(action);
    for (const key of ['on', 'after']) if (s[key]) made[key] = each(s[key], transition);
    for (const key of ['always', 'onDone', 'route']) if (s[key]) made[key] = transition(s[key]);
    if (s.invoke) made.invoke = list(s.invoke).map(invoke);
    if (typeof s.initial === 'object') made.initial = transition(s.initial);
    if (s.states) made.states = each(s.states, state);
    return made;
  };
}

const lenient = name => new Proxy({}, { get: (_, key) => typeof key === 'string' ? name : undefined, has: () => true });

function tree(node) {
  return {
    key: node.key, type: node.type, history: node.history || undefined, tags: node.tags,
    initial: node.type === 'compound' ? node.initial.target.map(t => t.key) : undefined,
    states: Object.values(node.states).map(tree),
  };
}

const named = fn => new Proxy({}, { get: (_, key) => typeof key === 'string' ? fn(key) : undefined, has: () => true });

// actor runs until the event "end".
const actor = {
  transition: (snapshot, event) => event.type !== 'end' ? snapshot
    : event.success ? { ...snapshot, status: 'done', output: null } : { ...snapshot, status: 'error', error: new Error('failed') },
  getInitialSnapshot: () => ({ status: 'active', output: undefined, error: undefined }),
  getPersistedSnapshot: snapshot => snapshot,
};

// inChart renames the keys of a state value as a chart does.
const inChart = value => typeof value === 'string' ? value.replace(/[.#/ ]/g, '_')
  : Object.fromEntries(Object.entries(value).map(([key, v]) => [inChart(key), inChart(v)]));

function run({ config, events, patches, shape, parity }) {
  const xstate = load(patches || []);
  const { assign, createActor, createMachine, fromCallback, fromPromise, setup } = xstate;
  let log = [];
  config = reviver(xstate)(config);
  if (shape) {
    const nothing = () => {};
    const machine = createMachine(config, { actions: lenient(nothing), guards: lenient(() => true), actors: lenient({}), delays: lenient(1) });
    return { tree: tree(machine.root) };
  }
  const emitted = [], logged = [], received = [];
  const listener = fromCallback(({ input, receive }) => { received.push({ input: input ?? null }); receive(e => received.push(e)); });
  const anyName = () => createMachine({ ...config, context: {}, options: { maxIterations: 2000 } }, {
    actions: named(name => () => { log.push(name); }),
    guards: named(name => () => [...name].reduce((sum, c) => sum + c.charCodeAt(0), parity) % 2 === 0),
    actors: named(() => actor), delays: named(() => 30),
  });
  const machine = parity !== undefined ? anyName() : setup({
    actors: { listener, ends: fromPromise(async () => 'ended'), fails: fromCallback(() => { throw new Error('planned'); }) },
    actions: {
      log: (_, params) => log.push(params.text),
      note: (_, params) => log.push(params.text),
      inc: assign({ n: ({ context }) => context.n + 1 }),
      output: ({ event }) => log.push('output ' + JSON.stringify(event.output ?? null)),
      'note output': ({ event }) => log.push('output ' + JSON.stringify(event.output ?? null)),
    },
    guards: {
      lt: ({ context }, params) => context.n < params.n,
      even: ({ context }) => context.n % 2 === 0,
      never: () => false,
    },
    delays: { brief: 20, growing: ({ context }) => 10 * (1 + context.n % 4) },
  }).createMachine({ ...config, context: { n: 0 }, options: { maxIterations: 5000 } });
  const clock = new Clock();
  const steps = [];
  const root = createActor(machine, { clock, logger: text => logged.push(text) });
  root.on('*', event => emitted.push(event));
  let failure;
  root.subscribe({ error: e => { failure = e; } });
  const take = () => {
    if (failure) throw failure;
    const { value, tags, status } = root.getSnapshot();
    steps.push({ value: parity === undefined ? value : Object.keys(machine.states).length ? inChart(value) : 'atomic', log, tags: [...tags].sort(), status });
    log = [];
  };
  try {
    root.start();
    take();
    for (const event of events) {
      if (event.stop) root.stop();
      else if (event.advance) clock.advance(event.advance);
      else if ('end' in event) {
        const running = Object.values(root.getSnapshot().children);
        if (running.length === 1) running[0].send({ type: 'end', success: event.end });
      } else root.send(event);
      take();
    }
  } catch (e) {
    return { steps, error: String(e && e.message || e) };
  }
  return { steps, emitted, logged, received };
}

console.warn = () => {};
readline.createInterface({ input: process.stdin }).on('line', line => {
  let answer;
  try {
    answer = run(JSON.parse(line));
  } catch (e) {
    answer = { error: String(e && e.message || e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
});
