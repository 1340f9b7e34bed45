/**
 * Keeps the memory of the machine in use: `node dist/bench/hold.js BYTES FILE`, with a channel to its parent. Holds all but so many
 * bytes of what is free, and fills those with the pages of a file, which the kernel takes back when others need pages.
 *
 * A virtual machine may get its memory from the host when a page is first touched, and give free pages back. Downloads then pay 2.5
 * CPU seconds a GB for new pages of the page cache, which says nothing of a proxy. While memory is in use, as on a machine that
 * has run for a day, the kernel takes pages that it has.
 */
import { closeSync, fsyncSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { freemem } from 'node:os'

const left = Number(process.argv[2])
const file = openSync(process.argv[3] ?? '', 'w')
const piece = 256 * 1024 * 1024
const held: Buffer[] = []

// Where memory runs out after all, this process is the first to go.
writeFileSync('/proc/self/oom_score_adj', '1000')
for (let rest = freemem() - left; rest > piece; rest -= piece) held.push(Buffer.alloc(piece, 1))
const written = Buffer.alloc(1024 * 1024)
for (let rest = freemem(); rest > 0; rest -= written.length) writeSync(file, written)
fsyncSync(file)
closeSync(file)
process.send?.(held.length * piece)
process.once('disconnect', () => process.exit())
