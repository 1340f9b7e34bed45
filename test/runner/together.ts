/**
 * Runs compiled test files one after the other in this process: `node dist/test/runner/together.js FILE ...`. Each is a subtest with the
 * name of its file. What a file says of its tests at its top, `t.test` and its likes, is said to the subtest of the file.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { files } from './arguments.ts'
import { atTheTop } from './processes.ts'

const subtest = t.test.bind(t)
let file: Test | undefined

for (const name of atTheTop) {
  const value = (...args: unknown[]) => {
    if (file === undefined) throw new Error(`t.${name} is called where no file is run`)
    return Reflect.apply(Reflect.get(file, name), file, args)
  }
  Object.defineProperty(t, name, { value })
}

for (const path of files) {
  await subtest(path, async test => {
    file = test
    await import(pathToFileURL(resolve(path)).href)
  })
}
