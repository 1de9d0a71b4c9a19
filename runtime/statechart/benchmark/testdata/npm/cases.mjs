// The cases of this benchmark in XState, with the same structure and names as in the Go files.
//
//	node cases.mjs measure [milliseconds a case]   prints the cost of an event, as JSON
//	node cases.mjs check 1 2 3                     prints the calls after 1, 2 and 3 events, as JSON
//
// Actions are plain functions that count in a variable, which costs XState less than assign. In the case persist
// the counts are stored, so they are kept in the context with assign.

import { readFileSync } from 'node:fs';
import { assign, createActor, createMachine } from 'xstate';

const newCounts = () => ({ exits: 0, actions: 0, entries: 0 });
const leaves = (value) => (typeof value === 'string' ? [value] : Object.values(value).flatMap(leaves));
const other = (id, first, second) => (id === first ? second : first);

// subject is one case: run applies its event n times, and seen returns the calls since the start.
function subject(machine, event, seen) {
	const actor = createActor(machine).start();
	const before = { ...seen.counts };
	return {
		run(n) {
			for (let i = 0; i < n; i++) actor.send(event);
		},
		seen: () => report(seen.counts, before, seen.guards, actor.getSnapshot()),
	};
}

function report(counts, before, guards, snapshot) {
	return {
		exits: counts.exits - before.exits,
		actions: counts.actions - before.actions,
		entries: counts.entries - before.entries,
		guards: guards ?? 0,
		state: leaves(snapshot.value).sort(),
	};
}

function flat() {
	const counts = newCounts();
	const action = () => void counts.actions++;
	const machine = createMachine({
		id: 'benchmark',
		initial: 'off',
		states: {
			off: { on: { TOGGLE: { target: 'on', actions: action } } },
			on: { on: { TOGGLE: { target: 'off', actions: action } } },
		},
	});
	return subject(machine, { type: 'TOGGLE' }, { counts });
}

function payload() {
	const counts = newCounts();
	const action = ({ event }) => void (counts.actions += event.n);
	const machine = createMachine({
		id: 'benchmark',
		initial: 'off',
		states: {
			off: { on: { ADD: { target: 'on', actions: action } } },
			on: { on: { ADD: { target: 'off', actions: action } } },
		},
	});
	return subject(machine, { type: 'ADD', n: 1 }, { counts });
}

function nestedMachine({ exit, action, entry }, context) {
	const branch = (name) => ({
		initial: `${name}2`,
		entry,
		exit,
		states: {
			[`${name}2`]: {
				initial: `${name}3`,
				entry,
				exit,
				states: {
					[`${name}3`]: {
						id: `${name}3`,
						entry,
						exit,
						on: { GO: { target: `#${other(name, 'a', 'b')}3`, actions: action } },
					},
				},
			},
		},
	});
	return createMachine({ id: 'benchmark', context, initial: 'a1', states: { a1: branch('a'), b1: branch('b') } });
}

function nested3() {
	const counts = newCounts();
	const machine = nestedMachine({
		exit: () => void counts.exits++,
		action: () => void counts.actions++,
		entry: () => void counts.entries++,
	});
	return subject(machine, { type: 'GO' }, { counts });
}

function guards() {
	const counts = newCounts();
	const seen = { counts, guards: 0 };
	const action = () => void counts.actions++;
	const guarded = (id) => ({
		on: {
			GO: [
				...Array.from({ length: 4 }, () => ({ target: 'never', guard: () => (seen.guards++, false) })),
				{ target: other(id, 'off', 'on'), guard: () => (seen.guards++, true), actions: action },
			],
		},
	});
	const machine = createMachine({
		id: 'benchmark',
		initial: 'off',
		states: { off: guarded('off'), on: guarded('on'), never: {} },
	});
	return subject(machine, { type: 'GO' }, seen);
}

function regions3() {
	const counts = newCounts();
	const action = () => void counts.actions++;
	const region = (i) => ({
		initial: `off${i}`,
		states: {
			[`off${i}`]: { on: { TOGGLE: { target: `on${i}`, actions: action } } },
			[`on${i}`]: { on: { TOGGLE: { target: `off${i}`, actions: action } } },
		},
	});
	const machine = createMachine({
		id: 'benchmark',
		type: 'parallel',
		states: { region1: region(1), region2: region(2), region3: region(3) },
	});
	return subject(machine, { type: 'TOGGLE' }, { counts });
}

function persist() {
	const count = (key) => assign({ [key]: ({ context }) => context[key] + 1 });
	const machine = nestedMachine(
		{ exit: count('exits'), action: count('actions'), entry: count('entries') },
		newCounts(),
	);
	const first = createActor(machine).start();
	const before = first.getSnapshot().context;
	let stored = JSON.stringify(first.getPersistedSnapshot());
	return {
		run(n) {
			for (let i = 0; i < n; i++) {
				const actor = createActor(machine, { snapshot: JSON.parse(stored) }).start();
				actor.send({ type: 'GO' });
				stored = JSON.stringify(actor.getPersistedSnapshot());
			}
		},
		seen() {
			const snapshot = createActor(machine, { snapshot: JSON.parse(stored) }).getSnapshot();
			return report(snapshot.context, before, 0, snapshot);
		},
	};
}

// ring is a ring of states in which an event leads from each to the next. Targets are IDs, so flat and nested rings
// differ only in their hierarchy.
function ring(size, states) {
	const counts = newCounts();
	const action = () => void counts.actions++;
	const leaf = (i) => ({ id: `s${i}`, on: { NEXT: { target: `#s${(i + 1) % size}`, actions: action } } });
	return subject(createMachine({ id: 'benchmark', ...states(leaf) }), { type: 'NEXT' }, { counts });
}

const flatRing = (size) => () =>
	ring(size, (leaf) => ({
		initial: 's0',
		states: Object.fromEntries(Array.from({ length: size }, (_, i) => [`s${i}`, leaf(i)])),
	}));

const nestedRing = () =>
	ring(1000, (leaf) => {
		const ten = (id, child) => Object.fromEntries(Array.from({ length: 10 }, (_, i) => [id(i), child(i)]));
		const tops = ten(
			(i) => `g${i}`,
			(i) => ({
				initial: `g${i}h0`,
				states: ten(
					(j) => `g${i}h${j}`,
					(j) => ({
						initial: `s${100 * i + 10 * j}`,
						states: ten(
							(k) => `s${100 * i + 10 * j + k}`,
							(k) => leaf(100 * i + 10 * j + k),
						),
					}),
				),
			}),
		);
		return { initial: 'g0', states: tops };
	});

const cases = {
	flat,
	payload,
	nested3,
	guards,
	regions3,
	persist,
	large10: flatRing(10),
	large1000: flatRing(1000),
	deep1000: nestedRing,
};

// warmUp is the time in milliseconds that a case runs before the measurement, so that the optimising compiler
// compiles XState's code.
const warmUp = 400;

// slices is the number of parts of the measured time. Only the fastest part counts: Node collects garbage and
// compiles on other threads, and on a busy machine XState would appear too slow.
const slices = 5;

// measure returns the nanoseconds of an event. The warm-up determines the number of events.
function measure({ run }, milliseconds) {
	const timed = (n) => {
		const start = process.hrtime.bigint();
		run(n);
		return Number(process.hrtime.bigint() - start);
	};
	let n = 100;
	let spent = 0;
	let took = 0;
	while (spent < warmUp * 1e6) {
		took = timed(n);
		spent += took;
		if (took < warmUp * 1e5) n *= 2;
	}
	const events = Math.max(1, Math.round((milliseconds * 1e6 * n) / took / slices));
	return Math.min(...Array.from({ length: slices }, () => timed(events))) / events;
}

const [mode, ...args] = process.argv.slice(2);
if (mode === 'measure') {
	const { version } = JSON.parse(readFileSync(new URL('node_modules/xstate/package.json', import.meta.url)));
	const nanoseconds = {};
	for (const [name, make] of Object.entries(cases)) nanoseconds[name] = measure(make(), Number(args[0] ?? 300));
	console.log(JSON.stringify({ xstate: version, node: process.version, nanoseconds }));
} else if (mode === 'check') {
	const seen = {};
	for (const [name, make] of Object.entries(cases)) {
		const { run, seen: look } = make();
		let sent = 0;
		seen[name] = args.map(Number).map((n) => {
			run(n - sent);
			sent = n;
			return look();
		});
	}
	console.log(JSON.stringify(seen));
} else {
	console.error('usage: node cases.mjs measure [milliseconds] | check events...');
	process.exit(2);
}
