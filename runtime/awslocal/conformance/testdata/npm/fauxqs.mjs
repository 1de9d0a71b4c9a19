// Starts fauxqs on the loopback port given. It keeps nothing on disk here, so that a Node.js without node:sqlite will do.
import { isBuiltin, register } from 'node:module'

if (!isBuiltin('node:sqlite')) {
  const stub = 'data:text/javascript,export class DatabaseSync {}'
  const hook = `export const resolve = (specifier, context, next) =>
    specifier === 'node:sqlite' ? { url: ${JSON.stringify(stub)}, shortCircuit: true } : next(specifier, context)`
  register('data:text/javascript,' + encodeURIComponent(hook))
}
const { startFauxqs } = await import('fauxqs')
await startFauxqs({ port: Number(process.argv[2]), host: '127.0.0.1', logger: false })
