import { createReadStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  tarEnd,
  tarHeader,
  tarMembers,
  tarPadding,
} from '../../../../lib/cache/features/bundle/tar.ts'
import { command, lacking } from '../../../fixtures/process/command.ts'

async function* inPieces(bytes: Buffer, step: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step)
}

async function read(bytes: Buffer, step = 700, only?: string) {
  const found: [string, string][] = []
  for await (const { name, content } of tarMembers(inPieces(bytes, step))) {
    const parts: Buffer[] = []
    if (only === undefined || only === name) for await (const part of content) parts.push(part)
    found.push([name, Buffer.concat(parts).toString()])
  }
  return found
}

function archive(members: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(members).flatMap(([name, text]) => [
    tarHeader(name, text.length, Date.UTC(2025, 0, 1)),
    Buffer.from(text),
    tarPadding(text.length),
  ])
  return Buffer.concat([...parts, tarEnd])
}

const members = {
  'a.json': '{}',
  empty: '',
  'sha256/ab/abcd': 'x'.repeat(512),
  'm/1': 'y\n'.repeat(999),
}

t.test('what is written is read, in pieces of any size', async t => {
  for (const step of [1, 512, 700, 1 << 20]) {
    t.strictSame(await read(archive(members), step), Object.entries(members), `${step}`)
  }
  t.strictSame(
    (await read(archive(members), 700, 'm/1')).map(([name, text]) => [name, text.length]),
    [
      ['a.json', 0],
      ['empty', 0],
      ['sha256/ab/abcd', 0],
      ['m/1', 1998],
    ],
    'a content that is not read is passed over',
  )
})

t.test('a member of more than 8 GiB has its size in binary', async t => {
  const size = 9 * 2 ** 30
  const { value } = await tarMembers(inPieces(tarHeader('large', size, 0), 512)).next()
  t.equal(value?.size, size)
})

t.test('what is damaged, cut off or no archive is an error', async t => {
  const good = archive(members)
  const wrong = Buffer.from(good)
  wrong[0] = 0x7a
  await t.rejects(read(wrong), { message: /not a tar archive/ })
  await t.rejects(read(Buffer.alloc(2000, 'x')), { message: /not a tar archive/ })
  for (const length of [0, 100, 511, 513, 3000]) {
    await t.rejects(read(good.subarray(0, length)), { message: /ends too early/ }, `${length}`)
  }
})

t.test('tar reads what is written, and the other way round', { skip: lacking('tar') }, async t => {
  const directory = t.testdir({ 'ours.tar': archive(members) })
  const listed = await command('tar', ['-tf', join(directory, 'ours.tar')])
  t.equal(listed.toString(), `${Object.keys(members).join('\n')}\n`)
  await mkdir(join(directory, 'in/sub'), { recursive: true })
  await writeFile(join(directory, 'in/one'), 'first')
  await writeFile(join(directory, 'in/sub/two'), 'second')
  for (const format of ['gnu', 'ustar', 'pax']) {
    const path = join(directory, `${format}.tar`)
    await command('tar', ['-cf', path, `--format=${format}`, '-C', join(directory, 'in'), '.'])
    const found: string[] = []
    for await (const { name } of tarMembers(createReadStream(path))) found.push(name)
    t.strictSame(found.sort(), ['one', 'sub/two'], format)
  }
})
