/**
 * Fetches the files of a build that the store does not have, one at a time from their URLs. Only content with the recorded digest is
 * stored.
 */
import type { Logger } from '../../log/log.ts'
import { classify } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { Rules } from '../policy/policy.ts'
import { destinationOfUrl } from '../request/destination.ts'
import { fetchedKey } from '../store/key.ts'
import { type GivenFile, isFile } from './build.ts'
import type { Builds } from './builds.ts'

interface MissingFilesParts {
  readonly builds: Builds
  readonly fetcher: Pick<Fetcher, 'fetch' | 'closing'>
  readonly rules: () => Rules
  readonly log: Logger
}

export class MissingFiles {
  readonly #parts: MissingFilesParts
  /** The names of builds whose files are being fetched. */
  readonly #running = new Set<string>()

  constructor(parts: MissingFilesParts) {
    this.#parts = parts
  }

  /** Begins to fetch the missing files of a build. Resolves to their number, or to a sentence when it cannot begin. */
  async begin(name: string): Promise<number | string> {
    const { builds, rules, log } = this.#parts
    const build = builds.named(name)
    if (build === undefined) return builds.sentenceWithout(name)
    if (this.#running.has(name)) return `What the build ${name} lacks is being fetched already.`
    if (rules().config.offline) return 'This proxy is offline (`offline`): nothing is fetched.'
    this.#running.add(name)
    const missing: [url: string, file: GivenFile][] = []
    for (const [url, answer] of build.answers) {
      if (isFile(answer) && !(await builds.hasContent(answer))) missing.push([url, answer])
    }
    void this.#all(missing)
      .then(fetched =>
        log.info('fetched what a build lacks', { name, fetched, of: missing.length }),
      )
      .finally(() => this.#running.delete(name))
    return missing.length
  }

  /** Fetches all files. Resolves to the number of those that have arrived. Never rejects. */
  async #all(missing: ReadonlyArray<readonly [string, GivenFile]>): Promise<number> {
    const { fetcher, log } = this.#parts
    let fetched = 0
    for (const [url, file] of missing) {
      if (fetcher.closing) break
      const because = await this.#one(url, file)
      if (because === undefined) fetched += 1
      else log.warn('a file of a build cannot be fetched', { url, because })
    }
    return fetched
  }

  /** Fetches a file. Resolves to the reason when it has not arrived; undefined when it is stored. */
  async #one(url: string, { digest, size }: GivenFile): Promise<string | undefined> {
    const { fetcher, rules } = this.#parts
    const destination = destinationOfUrl(url, rules())
    if (typeof destination === 'string') return destination
    const { uri, admission } = destination
    if ('deny' in admission) return admission.sentence
    const { found } = fetcher.fetch({
      key: fetchedKey(digest),
      uri,
      archive: classify(uri.path),
      claim: { size, digest, suite: '' },
      stored: undefined,
      insist: false,
    })
    const first = await found
    switch (first.kind) {
      case 'validated':
        return undefined
      case 'answered':
        return `the origin answered ${first.status}`
      case 'failed':
        return first.failure.message
      case 'filling': {
        const settled = await first.filling.settled
        if (settled.kind === 'failed') return settled.failure.message
        const stored = settled.kind === 'stored' && (await settled.kept)
        return stored ? undefined : 'it could not be stored'
      }
    }
  }
}
