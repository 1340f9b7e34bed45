/**
 * Contents of a bundle that lie in the store before an entry names them.
 */
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { exportBundle } from '../../../../lib/cache/features/bundle/export.ts'
import {
  contentName,
  identityName,
  identityText,
  manifestLine,
  manifestName,
} from '../../../../lib/cache/features/bundle/format.ts'
import { importBundle } from '../../../../lib/cache/features/bundle/import-bundle.ts'
import { openSink, type Sink } from '../../../../lib/cache/features/bundle/sink.ts'
import { keepAll } from '../../../../lib/cache/store/retention-rules.ts'
import type { Store } from '../../../../lib/cache/store/store.ts'
import { bytesOf, entryOf, keep, opened, sha256, until } from '../../../fixtures/store/opened.ts'

const now = systemClock.now()

/** A bundle with a content for each of these, and all of them in one part of the manifest. */
async function inOnePart(path: string, contents: readonly Buffer[]): Promise<void> {
  const sink = await openSink(path, now)
  const write = (name: string, bytes: Buffer) => sink.member(name, bytes.length, [bytes])
  await write(identityName, Buffer.from(identityText(now, 'test')))
  const entries = contents.map((content, n) => entryOf(urlOf(`new${n}`), content))
  for (const [n, { digest }] of entries.entries()) {
    await write(contentName(digest), contents[n] ?? Buffer.alloc(0))
  }
  await write(manifestName(1), Buffer.from(entries.map(manifestLine).join('')))
  await sink.finish()
}

const urlOf = (name: string) => `http://archive.example.org/debian/pool/${name}_1_all.deb`

t.test('a content waits for its manifest longer than others stay without an entry', async t => {
  const { store, clock } = await opened(t, { keepUnnamed: true })
  const path = join(t.testdir({}), 'bundle.tar')
  await inOnePart(path, [bytesOf(500), bytesOf(500)])
  const slow: Pick<Store, 'download' | 'read' | 'put'> = {
    download: about => store.download(about),
    put: entry => store.put(entry),
    read: async key => {
      clock.advance(61_000)
      await store.sweep({ now: clock.now() })
      return store.read(key)
    },
  }
  const parts = { store: slow, records: [], dryRun: false, onRead: () => undefined }
  t.match(await importBundle(path, false, parts), { files: 2, leftOut: [] })
})

t.test('room is made for a bundle by removing what was there before', async t => {
  // A second testdir in a test empties the first.
  const base = t.testdir({ store: {} })
  const { store, clock } = await opened(t, { keepUnnamed: true, directory: join(base, 'store') })
  const MiB = 1 << 20
  store.retain({ ...keepAll, size: 4 * MiB })
  for (const n of [1, 2, 3]) await keep(store, urlOf(`old${n}`), bytesOf(MiB))
  const path = join(base, 'bundle.tar')
  await inOnePart(path, [bytesOf(0.6 * MiB), bytesOf(0.6 * MiB)])
  // Time passes, so that the first content is without an entry for long when room is needed for the second.
  const parts = { store, records: [], dryRun: false, onRead: () => clock.advance(2_000) }
  t.match(await importBundle(path, false, parts), { files: 2, leftOut: [] })
  await until(() => store.peek(urlOf('old1')) === undefined)
})

t.test(
  'files that are exported have their entries before a content for which they would wait',
  async t => {
    const contents = new Map([bytesOf(1), bytesOf(2)].map(bytes => [sha256(bytes), bytes]))
    const size = 80 * 1024 * 1024
    const store = {
      async *entries() {
        for (const [n, bytes] of [...contents.values()].entries()) {
          yield { ...entryOf(urlOf(`large${n}`), bytes, { size }), lastUsed: 0 }
        }
      },
      content: ({ digest }: { digest: string }) => ({ kind: 'bytes', bytes: contents.get(digest) }),
    }
    const members: string[] = []
    const sink: Pick<Sink, 'member'> = {
      member: async (name, _size, content) => {
        members.push(name)
        for await (const _ of content);
      },
    }
    const around = { now, by: 'test', chosen: () => true, onRead: () => undefined }
    await exportBundle({ store: store as never, sink: sink as never, ...around })
    const [a = '', b = ''] = [...contents.keys()].map(contentName)
    t.strictSame(members, [identityName, a, manifestName(1), b, manifestName(2)])
  },
)
