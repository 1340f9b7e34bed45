/**
 * Runs tests without the hooks into every promise by which tap tells which subtest an error belongs to that nobody caught:
 * `node --import .../without-hooks.js test.js`. They cost a tenth of all processor time, and nearly half of it where a test awaits much. Such
 * an error still fails its file; tap says it at the end, or Node.js does.
 *
 * AsyncLocalStorage has a way of its own and works as ever.
 */
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none: AsyncHook = { enable: () => none, disable: () => none }

asyncHooks.createHook = () => none
syncBuiltinESMExports()
