// Follows the inspector of settle dev with the receiver of @statelyai/inspect. For each message it prints a line
// with the parts that are the same in each run, and then a line for each difference from the messages that the package
// sends for an XState machine.
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import { createInspector, createWebSocketReceiver } from '@statelyai/inspect';
import { createActor, createMachine } from 'xstate';

const { version } = createRequire(import.meta.url)('./node_modules/@statelyai/inspect/package.json');

// models maps the types of messages to messages of the package itself: of a parent, and of its child.
const models = {};
const { inspect } = createInspector({
  send: (message) => (models[message.type] ??= []).push(JSON.parse(JSON.stringify(message))),
});
const child = createMachine({ initial: 'off', context: {}, states: { off: { type: 'final' } }, output: {} });
createActor(createMachine({ initial: 'on', context: {}, invoke: { id: 'child', src: child }, states: { on: {} } }), { inspect }).start();

const kind = (value) => Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value;

// compare lists the keys of a message that no model has or that have another type, and the keys that all models have
// and the message lacks. The package sends no ID, though its types require one. Settle leaves out historyValue.
function compare(message, models, where = '') {
  const problems = [];
  const optional = where === '.snapshot' ? ['historyValue'] : [];
  for (const key of new Set([...Object.keys(message), ...models.flatMap(Object.keys)])) {
    const known = models.filter((model) => key in model).map((model) => key === 'id' && !where ? 'string' : kind(model[key]));
    if (key in message && !known.includes(kind(message[key])) && !(key === 'value' && kind(message[key]) === 'object')) {
      problems.push(`${where}.${key}: expected ${known.join(' or ') || 'no such key'}, got ${kind(message[key])}`);
    } else if (!(key in message) && known.length === models.length && !optional.includes(key)) {
      problems.push(`${where}.${key}: expected ${known[0]}, got no such key`);
    }
  }
  if (message.snapshot) problems.push(...compare(message.snapshot, models.map((model) => model.snapshot), '.snapshot'));
  return problems;
}

// machines maps the sessions to the XState machines of their definitions.
const machines = {};

function check(message) {
  const { type, sessionId, snapshot, _version, definition, createdAt } = message;
  const problems = compare(message, models[type] ?? []);
  if (_version !== version) problems.push(`._version: expected ${version}, got ${_version}`);
  if (!(Math.abs(Date.now() - Number(createdAt)) < 3_600_000)) problems.push(`.createdAt: expected milliseconds, got ${createdAt}`);
  if (type === '@xstate.actor') machines[sessionId] = createMachine(JSON.parse(definition));
  if (snapshot) {
    const { value, tags, status } = machines[sessionId].resolveState(snapshot);
    if (!isDeepStrictEqual({ value, tags: [...tags].sort(), status }, { value: snapshot.value, tags: [...snapshot.tags].sort(), status: snapshot.status })) {
      problems.push(`.snapshot: expected a state of the definition, got ${JSON.stringify(snapshot)}`);
    }
  }
  return problems;
}

const connect = () => createWebSocketReceiver({ server: process.argv[2] }).subscribe((message) => {
  const { type, sessionId, event, snapshot } = message;
  const parts = [type, sessionId];
  if (event) parts.push(event.type, ...Object.keys(event).filter((key) => key !== 'type'));
  if (snapshot) parts.push(JSON.stringify(snapshot.value), snapshot.status);
  console.log(parts.join(' '));
  for (const problem of check(message)) console.log('  ' + problem);
});
setTimeout(connect); // The package sends the models from timers, too, which are before this one.
process.stdin.on('end', () => process.exit()).resume();
