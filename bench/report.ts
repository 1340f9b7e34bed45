/**
 * Writes the results as a page: the machine, what was measured, the aims, and every figure beside those of the peers.
 */
import { spawnSync } from 'node:child_process'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { type Column, columnOf, columns, type Results, short } from './results.ts'
import type { Row } from './rows/row.ts'
import { type Aim, aims, type RowName, rows } from './rows/rows.ts'

export interface Circumstances {
  readonly rounds: number
  /** Sentences about what is not there, such as a peer the machine lacks. */
  readonly remarks: readonly string[]
  /** Of the last minute, before the run. */
  readonly load: number
}

export function circumstances(rounds: number, remarks: readonly string[]): Circumstances {
  return { rounds, remarks, load: loadavg()[0] ?? 0 }
}

/** The page in Markdown. */
export function page(results: Results, names: readonly RowName[], about: Circumstances): string {
  const owners = [...new Set(names.map(ownColumn))]
  return `# Results

Written by \`bench/run\` on ${new Date().toISOString().slice(0, 10)}; [README.md](README.md) says how it measures.

![Our figures beside those of the peers](results.svg)

${machine(about)}
## Aims

${table(
  ['', 'Aim', 'Measured', 'Met'],
  aims.filter(aim => names.includes(aim.row)).map(aim => judged(results, aim)),
)}
## Figures

Medians. In brackets: our figure divided by this one.

${owners.map(own => figuresOf(results, own, names)).join('\n')}
${besideBefore(results, names)}What is done in each row:

${names.map(name => `- **${rows[name].title}**: ${rows[name].note}.`).join('\n')}
`
}

/** Every figure of ours beside that of the tree before, where one was measured. Worse: the median lies outside what was measured before. */
function besideBefore(results: Results, names: readonly RowName[]): string {
  const body = names.flatMap(name => {
    const row: Row = rows[name]
    return Object.entries(row.figures).flatMap(([figure, { title, better }]) => {
      const now = results.spread(name, figure, ownColumn(name))
      const before = results.spread(name, figure, 'before')
      if (now === undefined || before === undefined) return []
      const worse = better === 'more' ? now.median < before.least : now.median > before.most
      const cells = [before, now].flatMap(({ median, least, most }) => [
        short(median),
        `${short(least)} to ${short(most)}`,
      ])
      const ratio = short(now.median / before.median)
      return [[`${row.title}: ${title}`, ...cells, ratio, worse ? 'yes' : 'no']]
    })
  })
  if (body.length === 0) return ''
  const head = ['', 'before', 'least to most', 'now', 'least to most', 'now by before', 'worse']
  return `Before and now, in turns. A figure counts as worse when its median now lies beyond every round before.

${table(head, body)}
`
}

/** The daemon of ours a row is about: the first of its subjects. */
function ownColumn(name: RowName): Column {
  const [own = 'cachesvc'] = rows[name].subjects
  return columnOf(own)
}

/** The rows about one daemon, beside its peers. */
function figuresOf(results: Results, own: Column, names: readonly RowName[]): string {
  const about = names.filter(name => ownColumn(name) === own)
  const peers = columns.filter(
    column => column !== own && about.some(name => results.hasRow(name, column)),
  )
  const figures = about.flatMap(name => lines(results, name, peers))
  return table(['', own, 'least to most', ...peers], figures)
}

function lines(results: Results, name: RowName, peers: readonly Column[]): string[][] {
  const row: Row = rows[name]
  return Object.entries(row.figures).map(([figure, { title }]) => {
    const own = results.spread(name, figure, ownColumn(name))
    const others = peers.map(column => {
      const value = results.median(name, figure, column)
      if (value === undefined) return ''
      return own === undefined ? short(value) : `${short(value)} (${short(own.median / value)})`
    })
    const spread = own === undefined ? '' : `${short(own.least)} to ${short(own.most)}`
    return [`${row.title}: ${title}`, own === undefined ? '' : short(own.median), spread, ...others]
  })
}

function judged(results: Results, { row, figure, relation, value, times }: Aim): string[] {
  const { title, figures }: Row = rows[row]
  const own = results.median(row, figure, ownColumn(row))
  const other = times === undefined ? 1 : results.median(row, figure, times)
  const name = `${title}: ${figures[figure]?.title}`
  const aim = `${relation} ${value}${times === undefined ? '' : ` times ${times}`}`
  if (own === undefined || other === undefined) return [name, aim, '', 'not measured']
  const measured = own / other
  const met = relation === 'at least' ? measured >= value : measured <= value
  return [name, aim, short(measured), met ? 'yes' : 'no']
}

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const rule = head.map((_, i) => (i === 0 ? '---' : '---:'))
  return [head, rule, ...body].map(cells => `| ${cells.join(' | ')} |\n`).join('')
}

function machine({ rounds, remarks, load }: Circumstances): string {
  const [cpu] = cpus()
  const facts = [
    `Machine: ${cpus().length} × ${cpu?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB memory, load ${load.toFixed(1)} before the run`,
    `Kernel: Linux ${release()}`,
    `Versions: ${versions().join(', ')}`,
    `Rounds: ${rounds}`,
    ...remarks,
  ]
  return facts.map(fact => `- ${fact}\n`).join('')
}

/** Of Debian's packages that are installed, and of this one. */
function versions(): string[] {
  const peers = ['nginx', 'varnish', 'squid', 'apt-cacher-ng', 'apt', 'libapache2-mod-auth-mellon']
  return [
    `cachesvc ${treeVersion('.')}`.trim(),
    `Node.js ${process.versions.node}`,
    ...printedBy('dpkg-query', ['-W', ...peers]).map(line => line.replace('\t', ' ')),
  ]
}

/** The commit of a checkout, for people. */
export function treeVersion(directory: string): string {
  return printedBy('git', ['-C', directory, 'describe', '--always', '--dirty'])[0] ?? ''
}

/** Lines that a program prints; none when it cannot run. */
function printedBy(program: string, args: readonly string[]): string[] {
  const { stdout } = spawnSync(program, args, { encoding: 'utf8' })
  return (stdout ?? '').split('\n').filter(line => line !== '')
}
