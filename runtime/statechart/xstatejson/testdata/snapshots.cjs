// Restores persisted snapshots in a version of XState, and persists them.
//
// Every line of the input is {"xstate", "config", "persisted", "events", "now"}: the npm package, a config, a snapshot or
// null, the types of events, and the time in milliseconds. Every line of the output is the persisted snapshot after the
// events, or {"error"}. Timers never fire.
'use strict';
const path = require('node:path');
const readline = require('node:readline');
const load = require('node:module').createRequire(path.join(__dirname, 'npm', 'package.json'));

function run({ xstate, config, persisted, events, now }) {
  Date.now = () => now;
  const { createMachine, createActor } = load(xstate);
  const actor = createActor(createMachine(config), { snapshot: persisted ?? undefined, clock: { setTimeout: () => 0, clearTimeout() {} } });
  actor.start();
  for (const type of events) actor.send({ type });
  return actor.getPersistedSnapshot();
}

readline.createInterface({ input: process.stdin }).on('line', line => {
  let answer;
  try {
    answer = run(JSON.parse(line));
  } catch (e) {
    answer = { error: String(e && e.message || e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
});
