/**
 * HTML from templates. Only this file knows the template engine.
 *
 * It is stricter than Mustache: every value is escaped without exception, a name that the view lacks is an error instead of an empty place,
 * and every template is checked when it is read, at start.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Mustache from 'mustache'

/** The values for a template: plain values, arrays and objects, but no functions. */
export type View = Readonly<Record<string, unknown>>

const suffix = '.mustache'

export class Templates {
  readonly #texts: Readonly<Record<string, string>>
  readonly #writer = new Mustache.Writer()

  private constructor(texts: Readonly<Record<string, string>>) {
    this.#texts = texts
    for (const [name, text] of Object.entries(texts)) {
      this.#check(name, this.#writer.parse(text))
    }
  }

  /**
   * Reads and checks every `*.mustache` file of a directory, once. Each may include the others as partials. Throws when one cannot be read,
   * is malformed, includes a missing one, or inserts a value without escaping it.
   */
  static read(directory: string): Templates {
    const names = readdirSync(directory).filter(name => name.endsWith(suffix))
    const texts = names.map(name => {
      return [name.slice(0, -suffix.length), readFileSync(join(directory, name), 'utf8')] as const
    })
    return new Templates(Object.fromEntries(texts))
  }

  /** The template `name` filled with `view`. Throws when there is no such template, or when it uses a name that the view lacks. */
  render(name: string, view: View): string {
    const text = this.#texts[name]
    if (text === undefined) throw new Error(`there is no template "${name}"`)
    return this.#writer.render(text, new StrictContext(view), this.#texts, { escape: escapeHtml })
  }

  #check(template: string, tokens: unknown): void {
    if (!Array.isArray(tokens)) return
    for (const token of tokens) {
      if (!Array.isArray(token)) continue
      const [kind, name, , , inner]: readonly unknown[] = token
      if (kind === '&') {
        throw new Error(`template "${template}" inserts "${name}" without escaping it`)
      }
      if (kind === '>' && this.#texts[String(name)] === undefined) {
        throw new Error(`template "${template}" includes "${name}", which does not exist`)
      }
      this.#check(template, inner)
    }
  }
}

/** Text made safe for element content and for attribute values in quotes (HTML 13.3). */
export function escapeHtml(value: unknown): string {
  return String(value).replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
}

/** Mustache's look-up, except that an unknown name is an error. */
class StrictContext extends Mustache.Context {
  override push(view: unknown): StrictContext {
    return new StrictContext(view, this)
  }

  override lookup(name: string): unknown {
    if (name === '.') return super.lookup(name)
    const path = name.split('.')
    for (let context: Mustache.Context | undefined = this; context; context = context.parent) {
      if (reaches(context.view, path)) return super.lookup(name)
    }
    throw new Error(`the view has no "${name}"`)
  }
}

function reaches(view: unknown, path: readonly string[]): boolean {
  const [head, ...rest] = path
  if (head === undefined) return true
  if (typeof view !== 'object' || view === null || !Object.hasOwn(view, head)) return false
  return reaches(Reflect.get(view, head), rest)
}
