// Extracts the machine configs of installed npm packages as JSON.
//
// The argument is a JSON array of {"name", "files", "index", "texts", "methods"}. Files are paths or folders below npm. The
// program loads every file with a copy of XState that records configs, and prints a line {"name", "config"} for each. A
// proxy that accepts every use replaces each module that cannot be loaded.
//
// With "index", the files import XState from ../src. With "texts", configs are in code within strings and Markdown. With
// "methods", methods named makeStateMachine return machines.
//
// Functions become named implementations. XState's own actions and guards become the objects that Read expects, if all
// of their arguments are literal.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const Module = require('node:module');

const root = path.join(__dirname, 'npm');
const own = Module.createRequire(path.join(root, 'package.json'));
const xstateFile = own.resolve('xstate');
const { transform } = own('sucrase');

// anything returns a value that accepts every use.
function anything() {
  const made = new Map();
  return new Proxy(function () {}, {
    get: (_, key) => {
      if (key === Symbol.toPrimitive) return () => 'anything';
      if (key === Symbol.iterator) return function* () {};
      if (key === 'then') return undefined;
      if (key === '__esModule') return true;
      if (!made.has(key)) made.set(key, key === 'prototype' ? {} : anything());
      return made.get(key);
    },
    set: () => true,
    apply: anything,
    construct: anything,
    getPrototypeOf: () => null,
  });
}

const list = v => Array.isArray(v) ? v : [v];
const isObject = v => typeof v === 'object' && v !== null;
const entries = (o, fn) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, fn(k, v)]).filter(([, v]) => v !== undefined));
const isLiteral = v => v === undefined || v === null || ['string', 'number', 'boolean'].includes(typeof v)
  || isObject(v) && [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(v)) && Object.values(v).every(isLiteral);

// builtins returns the properties of XState's actions in JSON, or a false value if an argument is a function.
const builtins = {
  'xstate.raise': ({ event, delay, id }) => isLiteral(event) && event.type && typeof delay !== 'function' && { event, delay, id },
  'xstate.cancel': ({ sendId }) => typeof sendId === 'string' && { sendId },
  'xstate.emit': ({ event }) => isLiteral(event) && event.type && { event },
  'xstate.log': ({ value }) => typeof value === 'string' && { value },
};

// toJSON converts one config.
function toJSON(config) {
  const names = new Map();
  const name = (kind, fn) => names.get(fn) || names.set(fn, kind + (names.size + 1)).get(fn);
  const seen = [];
  const data = v => {
    if (!isObject(v)) return ['function', 'symbol', 'undefined', 'bigint'].includes(typeof v) ? undefined : v;
    if (seen.includes(v) || seen.length > 20) return undefined;
    seen.push(v);
    const made = Array.isArray(v) ? v.map(x => data(x) ?? null) : entries(v, (_, x) => data(x));
    seen.pop();
    return made;
  };
  const each = (v, fn) => Array.isArray(v) ? v.map(fn) : fn(v);
  const action = a => {
    if (typeof a !== 'function') return data(a);
    const form = builtins[a.type]?.(a);
    return form ? data({ type: a.type, ...form }) : { type: name((a.type || 'action').replace('xstate.', ''), a) };
  };
  const guard = g => typeof g !== 'function' ? data(g)
    : 'stateValue' in g ? { type: 'xstate.stateIn', stateValue: g.stateValue }
    : 'guards' in g ? { type: `xstate.${g.name}`, guards: g.guards.map(guard) }
    : { type: name('guard', g) };
  const transition = t => Array.isArray(t) ? t.map(transition) : t === undefined ? null : !isObject(t) ? t
    : entries(t, (k, v) => v === undefined ? v : k === 'actions' ? each(v, action) : k === 'guard' ? guard(v) : data(v));
  const map = (o, fn) => !isObject(o) ? o : Array.isArray(o) ? data(o) : entries(o, (_, v) => fn(v));
  const invoke = i => !isObject(i) ? i : entries(i, (k, v) => k === 'src' && typeof v !== 'string' ? name('actor', v)
    : v !== undefined && ['onDone', 'onError', 'onSnapshot'].includes(k) ? transition(v) : data(v));
  const state = s => !isObject(s) ? data(s) : entries(s, (k, v) => {
    if (v === undefined) return v;
    switch (k) {
      case 'entry': case 'exit': return each(v, action);
      case 'on': case 'after': return map(v, transition);
      case 'always': case 'onDone': case 'route': case 'initial': return transition(v);
      case 'invoke': return each(v, invoke);
      case 'states': return map(v, state);
      default: return data(v);
    }
  });
  return state(config);
}

// recording returns a copy of XState that records the configs of machines.
function recording(xstate, record) {
  const creating = of => (config, ...rest) => { record(config); return of(config, ...rest); };
  const bundle = of => ({ ...of, createMachine: creating(of.createMachine), extend: more => bundle(of.extend(more)) });
  const copy = {};
  for (const key of Object.keys(xstate)) Object.defineProperty(copy, key, { get: () => xstate[key], set() {}, enumerable: true, configurable: true });
  const replace = (key, value) => key in xstate && Object.defineProperty(copy, key, { value, enumerable: true });
  for (const key of ['createMachine', 'Machine']) replace(key, creating((...args) => xstate[key](...args)));
  replace('setup', (...args) => bundle(xstate.setup(...args)));
  return Object.defineProperty(copy, '__esModule', { value: true });
}

// tryTo ignores errors: code for browsers cannot run here.
function tryTo(fn) {
  try { return fn(); } catch (e) { if (process.env.DEBUG) console.error(e); }
}

function extract(source) {
  const recorded = new Set();
  const record = config => {
    if (!isObject(config) || recorded.has(config)) return;
    recorded.add(config);
    fs.writeSync(1, JSON.stringify({ name: source.name, config: toJSON(config) }) + '\n');
  };
  const copies = new Map();
  const load = Module._load;
  Module._load = function (request, ...rest) {
    let exports;
    try { exports = load.call(this, request, ...rest); } catch { return anything(); }
    if (request !== 'xstate' && !(source.index && /^(\.\.\/)+src(\/index)?$/.test(request))) return exports;
    if (!copies.has(exports)) copies.set(exports, recording(exports, record));
    return copies.get(exports);
  };
  // runText runs code from a text. Names that the code does not declare are exports of XState, or anything.
  const runText = code => {
    const xstate = require('xstate');
    const js = transform(code, { transforms: ['imports', 'typescript', 'jsx'], disableESTransforms: true }).code;
    const scope = new Proxy({ exports: {}, require, Machine: xstate.createMachine }, {
      has: (_, key) => typeof key === 'string' && !(key in globalThis),
      get: (known, key) => typeof key === 'symbol' ? undefined : known[key] ?? xstate[key] ?? anything(),
    });
    globalThis.called = () => new Function('scope', `with (scope) { ${js.replace(/^"use strict";/, '')} }`)(scope);
    vm.runInThisContext('called()', { timeout: 10000 });
  };
  for (const file of files(source.files)) {
    if (source.texts) {
      const quoted = file.endsWith('.md') ? /```(?:js|ts|jsx|tsx)[^\n]*\n([^]*?)```/g : /`((?:[^`\\]|\\.)*)`/g;
      for (const [, code] of fs.readFileSync(file, 'utf8').matchAll(quoted)) {
        if (/\b(createMachine|Machine|setup)\(/.test(code)) tryTo(() => runText(code));
      }
      continue;
    }
    const exports = tryTo(() => require(file));
    if (!source.methods || !exports) continue;
    for (const { prototype } of Object.values(exports).filter(e => typeof e === 'function')) {
      if (prototype?.makeStateMachine) tryTo(() => Object.assign(Object.create(prototype), { input: anything() }).makeStateMachine(anything()));
    }
  }
  Module._load = load;
}

const files = paths => paths.map(p => path.resolve(root, p)).flatMap(p => !fs.statSync(p).isDirectory() ? [p]
  : files(fs.readdirSync(p).sort().map(name => path.join(p, name)))).filter(p => /(?<!\.d)\.(tsx?|js|md)$/.test(p));

// Modules and TypeScript are compiled to CommonJS.
for (const extension of ['.js', '.mjs', '.ts', '.tsx']) {
  Module._extensions[extension] = (module, file) => {
    const text = fs.readFileSync(file, 'utf8');
    const isModule = extension !== '.js' || /^\s*(import|export)\b[^(]/m.test(text);
    const transforms = ['imports', 'typescript', ...(extension === '.tsx' ? ['jsx'] : [])];
    module._compile(isModule ? transform(text, { transforms, disableESTransforms: true }).code : text, file);
  };
}
const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...rest) {
  return request === 'xstate' ? xstateFile : resolve.call(this, request, ...rest);
};

// The tests in the packages create machines in the bodies of describe. Their tests do not run.
const group = Object.assign((_, body) => tryTo(body), { each: () => () => {} });
Object.assign(globalThis, { describe: group, it: anything(), test: anything(), window: globalThis, document: anything(), navigator: anything() });
for (const key of ['log', 'warn', 'info']) console[key] = () => {};
JSON.parse(process.argv[2]).forEach(extract);
process.exit(0);
