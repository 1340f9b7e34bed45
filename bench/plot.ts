/**
 * Draws the results as SVG: one panel for each figure that has something to compare, bars in the colour scheme of the reader.
 */
import { columns, type Results, short } from './results.ts'
import type { Row } from './rows/row.ts'
import { type RowName, rows } from './rows/rows.ts'

const panelsAcross = 3
const panel = { width: 320, height: 196, head: 46, bar: 14, step: 20, label: 104, value: 62 }

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .unit { fill: #59636e }
  .bar { fill: #8c959f }
  .own { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .unit { fill: #9198a1 }
    .bar { fill: #656c76 }
    .own { fill: #4493f8 }
  }
`

interface Panel {
  readonly title: string
  readonly unit: string
  readonly bars: readonly { readonly name: string; readonly value: number }[]
}

/** The drawing as text. */
export function plot(results: Results, names: readonly RowName[]): string {
  const panels = names.flatMap(name => panelsOf(results, name))
  const height = Math.ceil(panels.length / panelsAcross) * panel.height
  const drawn = panels.map((one, i) => {
    const x = (i % panelsAcross) * panel.width
    const y = Math.floor(i / panelsAcross) * panel.height
    return `<g transform="translate(${x} ${y})">\n${draw(one)}</g>\n`
  })
  const width = panelsAcross * panel.width
  const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n<style>${style}</style>\n${drawn.join('')}</svg>\n`
}

function panelsOf(results: Results, name: RowName): Panel[] {
  const row: Row = rows[name]
  return Object.entries(row.figures).flatMap(([figure, { title, better }]) => {
    const bars = columns.flatMap(column => {
      const value = results.median(name, figure, column)
      return value === undefined ? [] : [{ name: column, value }]
    })
    const unit = `${title} (${better} is better)`
    return bars.length > 1 ? [{ title: row.title, unit, bars }] : []
  })
}

function draw({ title, unit, bars }: Panel): string {
  const longest = panel.width - panel.label - panel.value - 16
  const most = Math.max(...bars.map(bar => bar.value), Number.MIN_VALUE)
  const lines = bars.map(({ name, value }, i) => {
    const y = panel.head + i * panel.step
    const length = Math.max(1, (Math.max(0, value) / most) * longest)
    const kind = name === 'cachesvc' || name === 'authproxy' ? 'bar own' : 'bar'
    return (
      `<text x="${panel.label - 6}" y="${y + 11}" text-anchor="end">${name}</text>\n` +
      `<rect class="${kind}" x="${panel.label}" y="${y}" width="${length.toFixed(1)}" height="${panel.bar}" rx="2"/>\n` +
      `<text x="${(panel.label + length + 5).toFixed(1)}" y="${y + 11}">${short(value)}</text>\n`
    )
  })
  const head =
    `<text class="title" x="8" y="18">${title}</text>\n` +
    `<text class="unit" x="8" y="34">${unit}</text>\n`
  return head + lines.join('')
}
