/**
 * Manual pages as HTML: the requests of man(7) that the manuals of this repository use. Any other request is an error.
 */
import { escapeHtml } from '../../lib/template.ts'
import { Anchors, codeHtml } from './documents.ts'

type Font = 'B' | 'I' | 'R'

/** What an element of the page is open for: text, an entry's description, or an indented part. */
interface Frame {
  list: boolean
  paragraph: boolean
}

/** The content of a page for a manual. Throws where it has what man(7) does not, or what this cannot read. */
export function manualHtml(source: string): string {
  const reader = new ManualReader()
  source
    .replace(/\n$/, '')
    .split('\n')
    .forEach((line, index) => {
      try {
        reader.line(line)
      } catch (error) {
        throw new Error(`line ${index + 1}: ${line}`, { cause: error })
      }
    })
  return reader.end()
}

class ManualReader {
  #html = ''
  readonly #anchors = new Anchors()
  readonly #frames: Frame[] = [{ list: false, paragraph: false }]
  /** The next line is the term of an entry. */
  #term = false
  /** Lines of an example, between .nf and .fi. */
  #example: string[] | undefined

  line(line: string): void {
    if (line.startsWith('.\\"')) return
    if (this.#example !== undefined && line !== '.fi') {
      this.#example.push(plainText(line))
      return
    }
    const [, request, rest = ''] = /^\.([A-Za-z]+) ?(.*)$/.exec(line) ?? []
    if (request === undefined) this.#text(inline(line, 'R'))
    else this.#request(request, argumentsOf(rest))
  }

  end(): string {
    while (this.#frames.length > 1) this.#leave()
    this.#closeList()
    return this.#html
  }

  #request(name: string, operands: readonly string[]): void {
    switch (name) {
      case 'nh':
        return
      case 'TH':
        this.#html += `<h1>${escapeHtml(`${(operands[0] ?? '').toLowerCase()}(${operands[1]})`)}</h1>\n`
        return
      case 'SH':
      case 'SS':
        return this.#heading(name === 'SH' ? 2 : 3, operands.join(' '))
      case 'PP':
        return this.#closeList()
      case 'IP':
        if (operands.length > 0) throw new Error('an entry is written with .TP')
        return this.#closeParagraph()
      case 'TP':
        this.#openEntry()
        return
      case 'RS':
        return this.#enter()
      case 'RE':
        return this.#leave()
      case 'nf':
        this.#closeParagraph()
        this.#example = []
        return
      case 'fi':
        this.#html += codeHtml((this.#example ?? []).join('\n'), 'sh')
        this.#example = undefined
        return
      case 'br':
        this.#html += '<br>\n'
        return
      case 'B':
      case 'I':
      case 'R':
        return this.#text(inline(operands.join(' '), name))
      case 'BI':
      case 'BR':
      case 'RB':
      case 'IR':
      case 'RI':
      case 'IB':
        return this.#text(alternating(name, operands))
      default:
        throw new Error(`.${name} is not read`)
    }
  }

  #heading(level: 2 | 3, text: string): void {
    while (this.#frames.length > 1) this.#leave()
    this.#closeList()
    const words = level === 2 ? sentenceCase(text) : text
    const anchor = this.#anchors.of(plainText(words))
    this.#html += `<h${level} id="${anchor}">${inline(words, 'R')}</h${level}>\n`
  }

  #text(html: string): void {
    const frame = this.#frame()
    if (this.#term) {
      const words = html.replace(/<[^>]*>/g, '').replace(/&#\d+;/g, '')
      this.#html += `<dt id="entry-${this.#anchors.of(words.replaceAll(/\s+/g, ' '))}">${html}</dt>\n<dd>\n`
      this.#term = false
      return
    }
    this.#html += frame.paragraph ? `\n${html}` : `<p>${html}`
    frame.paragraph = true
  }

  #openEntry(): void {
    const frame = this.#frame()
    this.#closeParagraph()
    this.#html += frame.list ? '</dd>\n' : '<dl>\n'
    frame.list = true
    this.#term = true
  }

  #closeParagraph(): void {
    const frame = this.#frame()
    if (frame.paragraph) this.#html += '</p>\n'
    frame.paragraph = false
  }

  #closeList(): void {
    const frame = this.#frame()
    this.#closeParagraph()
    if (frame.list) this.#html += '</dd>\n</dl>\n'
    frame.list = false
  }

  #enter(): void {
    this.#closeParagraph()
    this.#html += '<div class="indented">\n'
    this.#frames.push({ list: false, paragraph: false })
  }

  #leave(): void {
    this.#closeList()
    if (this.#frames.length === 1) throw new Error('.RE without .RS')
    this.#frames.pop()
    this.#html += '</div>\n'
  }

  #frame(): Frame {
    const frame = this.#frames.at(-1)
    if (frame === undefined) throw new Error('no frame is open')
    return frame
  }
}

/** The operands of a request; quotes hold spaces together. */
function argumentsOf(text: string): string[] {
  return [...text.matchAll(/"((?:[^"]|"")*)"|(\S+(?:\\ \S*)*)/g)].map(
    ([, quoted, bare = '']) => quoted ?? bare,
  )
}

/** `.BR a b c`: the operands without spaces between them, in both fonts by turns. */
function alternating(name: string, operands: readonly string[]): string {
  const fonts = [...name].map(fontNamed)
  return operands.map((operand, index) => inline(operand, fonts[index % 2] ?? 'R')).join('')
}

function fontNamed(name: string): Font {
  if (name === 'B' || name === 'I' || name === 'R') return name
  throw new Error(`there is no font ${name}`)
}

/** Text with its fonts as HTML, beginning in the given one. */
function inline(text: string, first: Font): string {
  let font = first
  return text
    .split(/\\f(.)/)
    .map((part, index) => {
      if (index % 2 === 0) return inFont(plainText(part), font)
      font = fontNamed(part)
      return ''
    })
    .join('')
}

function inFont(text: string, font: Font): string {
  if (text === '') return ''
  if (font === 'R') return escapeHtml(text)
  return font === 'B' ? `<strong>${escapeHtml(text)}</strong>` : `<em>${escapeHtml(text)}</em>`
}

const characters: Readonly<Record<string, string>> = {
  ...{ '\\-': '-', '\\e': '\\', '\\&': '', '\\ ': ' ' },
  ...{ '\\(aq': "'", '\\(cq': '’', '\\(dq': '"', '\\(ti': '~', '\\(ha': '^', '\\(ga': '`' },
}

/** Text without fonts, its characters as they are. */
function plainText(text: string): string {
  return text.replace(/\\f./g, '').replace(/\\\(..|\\./g, written => {
    const character = characters[written]
    if (character === undefined) throw new Error(`${written} is not read`)
    return character
  })
}

/** SEE ALSO as See also; a manual writes its headings in capitals. */
function sentenceCase(text: string): string {
  return text.charAt(0) + text.slice(1).toLowerCase()
}
