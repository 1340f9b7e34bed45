/**
 * Holds the free memory of the machine but for so many bytes: `node dist/bench/hold.js BYTES`, with a channel to its parent.
 *
 * A virtual machine may get its memory from the host when a page is first touched, and give free pages back. Downloads then pay 2.5
 * CPU seconds a GB for new pages of the page cache, which says nothing of a proxy. While memory is in use, as on a machine that
 * has run for a day, the kernel takes pages that it has.
 */
import { writeFileSync } from 'node:fs'
import { freemem } from 'node:os'

const left = Number(process.argv[2])
const piece = 256 * 1024 * 1024
const held: Buffer[] = []

// Where memory runs out after all, this process is the first to go.
writeFileSync('/proc/self/oom_score_adj', '1000')
for (let rest = freemem() - left; rest > piece; rest -= piece) held.push(Buffer.alloc(piece, 1))
process.send?.(held.length * piece)
process.once('disconnect', () => process.exit())
