/**
 * Reads request targets and remembers those in demand, so that equal texts are one `Target`: what a caller works out for
 * a target can keep it beside the object (a WeakMap), and it is kept no longer than the target is.
 */
import { LRUCache } from 'lru-cache'
import { type Problem, parseTarget, type Target } from '../message/target.ts'

/** How many targets are remembered, and up to which length: together some megabytes at the very worst. */
const remembered = 4096
const longest = 1024

export class TargetReader {
  readonly #known = new LRUCache<string, Target>({ max: remembered })

  /** What `parseTarget` says. */
  read(method: string, text: string): Target | Problem {
    // The method decides on the form; what is not GET is rare.
    if (method !== 'GET' || text.length > longest) return parseTarget(method, text)
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const target = parseTarget(method, text)
    if (!('problem' in target)) this.#known.set(text, target)
    return target
  }
}
