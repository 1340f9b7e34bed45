/**
 * Manuals as blocks, written as Markdown for the repository and as man(7) source for the terminal. Pure.
 */

/** A part of a manual; a text is a paragraph. Words between back quotes are literal: names of settings, values, commands. */
export type Block =
  | string
  | { readonly kind: 'heading'; readonly level: 2 | 3; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'entry'; readonly term: string; readonly blocks: readonly Block[] }

export const heading = (text: string, level: 2 | 3 = 2): Block => ({ kind: 'heading', level, text })
export const code = (text: string): Block => ({ kind: 'code', text })
export const entry = (term: string, ...blocks: readonly Block[]): Block => ({
  kind: 'entry',
  term,
  blocks,
})

/** The blocks as Markdown; an entry is a heading one level below the one it stands under. */
export function markdown(title: string, blocks: readonly Block[]): string {
  let level = 1
  const written = blocks.map(block => {
    if (typeof block !== 'string' && block.kind === 'heading') level = block.level
    return markdownBlock(block, level)
  })
  return `# ${title}\n\n${written.join('\n\n')}\n`
}

function markdownBlock(block: Block, level: number): string {
  if (typeof block === 'string') return block
  switch (block.kind) {
    case 'heading':
      return `${'#'.repeat(block.level)} ${block.text}`
    case 'code':
      return `\`\`\`yaml\n${block.text}\n\`\`\``
    case 'entry':
      return [
        `${'#'.repeat(level + 1)} \`${block.term}\``,
        ...block.blocks.map(inner => markdownBlock(inner, level + 1)),
      ].join('\n\n')
  }
}

/** The date in the head of every man page: of their last revision as a whole. */
const edition = '2026-11-22'

/** The page of the configuration file `name` as man(7) source, clean under `groff -man -ww`. */
export function manPage(name: string, summary: string, blocks: readonly Block[]): string {
  const head = [
    '.\\" Written from the settings of the program: change them, not this file.',
    `.TH ${name.toUpperCase()} 5 "${edition}" "cachesvc" "File formats"`,
    // A setting broken at a hyphen cannot be copied.
    '.nh',
    '.SH NAME',
    `${roffText(name)} \\- ${roffText(summary)}`,
  ]
  const body = blocks.map(roffBlock).join('\n')
  // A heading begins a paragraph by itself.
  return `${[...head, body.replaceAll(/^(\.S[HS] .*)\n\.PP$/gm, '$1')].join('\n')}\n`
}

function roffBlock(block: Block): string {
  if (typeof block === 'string') return `.PP\n${roffText(block)}`
  switch (block.kind) {
    case 'heading':
      return block.level === 2 ? `.SH ${block.text.toUpperCase()}` : `.SS ${roffText(block.text)}`
    case 'code':
      return `.PP\n.RS 4\n.nf\n${roffLines(block.text)}\n.fi\n.RE`
    case 'entry':
      return `.TP\n.B ${roffLiteral(block.term)}\n${block.blocks.map(roffInEntry).join('\n')}`
  }
}

/** Inside an entry a paragraph keeps the indentation; the first one needs no request at all. */
function roffInEntry(block: Block, index: number): string {
  if (typeof block === 'string') return `${index === 0 ? '' : '.IP\n'}${roffText(block)}`
  if (block.kind === 'code') return `.IP\n.nf\n${roffLines(block.text)}\n.fi`
  return roffBlock(block)
}

/** Running text: a sentence begins a line, as man(7) asks, and lines are short; literal words are bold. */
function roffText(text: string): string {
  return text
    .split('`')
    .map((part, i) => (i % 2 === 1 ? `\\fB${roffLiteral(part)}\\fR` : roffEscape(part)))
    .join('')
    .split(/(?<=[.?]) (?=[A-Z`\\])/)
    .flatMap(sentence => sentence.match(/.{1,78}(?:\s|$)|\S+/g) ?? [])
    .map(line => protectLine(line.trimEnd()))
    .join('\n')
}

function roffLines(text: string): string {
  return text.split('\n').map(roffLiteral).map(protectLine).join('\n')
}

function roffEscape(text: string): string {
  return text.replace(/\\/g, '\\e').replace(/’/g, '\\(cq').replace(/…/g, '...')
}

/** Text to be copied: its hyphens and quotes have to stay what they are. */
function roffLiteral(text: string): string {
  return text
    .replace(/\\/g, '\\e')
    .replace(/-/g, '\\-')
    .replace(/'/g, '\\(aq')
    .replace(/"/g, '\\(dq')
    .replace(/~/g, '\\(ti')
    .replace(/\^/g, '\\(ha')
    .replace(/`/g, '\\(ga')
    .replace(/…/g, '...')
}

/** A line that begins with a full stop or an apostrophe would be a request. */
function protectLine(line: string): string {
  return /^[.']/.test(line) ? `\\&${line}` : line
}
