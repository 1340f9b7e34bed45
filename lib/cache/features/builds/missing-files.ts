/**
 * Fetches the files of a build that the store does not have, one at a time from their URLs. Only content with the recorded digest is
 * stored.
 */
import type { Logger } from '../../../log/log.ts'
import { classify } from '../../archive/path.ts'
import type { Fetcher } from '../../fetch/fetch.ts'
import type { Rules } from '../../policy/policy.ts'
import { destinationOfUrl } from '../../request/destination.ts'
import { fetchedKey } from '../../store/key.ts'
import { type GivenFile, isFile } from './build.ts'
import type { Builds } from './builds.ts'

interface MissingFilesParts {
  readonly builds: Builds
  readonly fetcher: Pick<Fetcher, 'fetch' | 'closing'>
  readonly rules: () => Rules
  readonly log: Logger
}

/**
 * Makes a function that begins to fetch the missing files of a build. It resolves to their number, or to a sentence when it cannot begin.
 */
export function missingFiles(parts: MissingFilesParts): (name: string) => Promise<number | string> {
  const { builds, fetcher, rules, log } = parts
  /** The names of builds whose files are being fetched. */
  const running = new Set<string>()
  return async name => {
    const build = builds.named(name)
    if (build === undefined) return builds.sentenceWithout(name)
    if (running.has(name)) return `What the build ${name} lacks is being fetched already.`
    if (rules().config.offline) return 'This proxy is offline (`offline`): nothing is fetched.'
    running.add(name)
    const missing: [url: string, file: GivenFile][] = []
    for (const [url, answer] of build.answers) {
      if (isFile(answer) && !(await builds.hasContent(answer))) missing.push([url, answer])
    }
    const fetchAll = async (): Promise<void> => {
      let fetched = 0
      for (const [url, file] of missing) {
        if (fetcher.closing) break
        const because = await fetchOne(url, file, parts)
        if (because === undefined) fetched += 1
        else log.warn('a file of a build cannot be fetched', { url, because })
      }
      log.info('fetched what a build lacks', { name, fetched, of: missing.length })
    }
    void fetchAll().finally(() => running.delete(name))
    return missing.length
  }
}

/** Fetches a file. Resolves to the reason when it has not arrived; undefined when it is stored. */
async function fetchOne(
  url: string,
  { digest, size }: GivenFile,
  { fetcher, rules }: MissingFilesParts,
): Promise<string | undefined> {
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
