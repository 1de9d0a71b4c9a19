// Starts fauxqs on the given loopback port. It stores nothing on disk, so it also runs on a Node.js without node:sqlite.
import { isBuiltin, register } from 'node:module'

if (!isBuiltin('node:sqlite')) {
  const stub = 'data:text/javascript,export class DatabaseSync {}'
  const hook = `export const resolve = (specifier, context, next) =>
    specifier === 'node:sqlite' ? { url: ${JSON.stringify(stub)}, shortCircuit: true } : next(specifier, context)`
  register('data:text/javascript,' + encodeURIComponent(hook))
}
const { startFauxqs } = await import('fauxqs')
await startFauxqs({ port: Number(process.argv[2]), host: '127.0.0.1', logger: false })
