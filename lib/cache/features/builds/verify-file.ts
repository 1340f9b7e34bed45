/**
 * Reads which files a document names: one that `cachesvc build export` writes, or a statement that has its `resolvedDependencies`. It knows
 * neither files nor sockets.
 */
import { isRecord, type JsonObject, parsedJson } from '../../../json.ts'
import { classify } from '../../archive/path.ts'
import { isDigest } from '../../store/disk/disk.ts'

/** A file with its SHA-256. */
export interface NamedFile {
  readonly url: string
  readonly digest: string
}

/** The files that a document names, each once; a sentence when it is not one of these documents. */
export function namedFiles(text: string): readonly NamedFile[] | string {
  const json = parsedJson(text)
  const pairs = isRecord(json) ? pairsIn(json) : pairsInList(text)
  const files = pairs.flatMap(([url, digest]) =>
    typeof url === 'string' &&
    /^https?:/.test(url) &&
    typeof digest === 'string' &&
    isDigest(digest)
      ? [[url, digest] as const]
      : [],
  )
  if (files.length === 0)
    return 'it names no files as a list, SPDX, CycloneDX or resolvedDependencies do'
  return [...new Map(files)].map(([url, digest]) => ({ url, digest }))
}

type Pair = readonly [url: unknown, digest: unknown]

function pairsIn(document: JsonObject): readonly Pair[] {
  const { packages, components } = document
  return [
    ...records(packages).map(({ downloadLocation, checksums }): Pair => {
      const sum = records(checksums).find(({ algorithm }) => algorithm === 'SHA256')
      return [downloadLocation, sum?.['checksumValue']]
    }),
    ...records(components).flatMap(({ externalReferences, hashes }): readonly Pair[] => {
      const sum = records(hashes).find(({ alg }) => alg === 'SHA-256')?.['content']
      const places = records(externalReferences).filter(({ type }) => type === 'distribution')
      return places.map(({ url }) => [url, sum])
    }),
    ...records(dependenciesIn(document)).map(({ uri, downloadLocation = uri, digest }): Pair => {
      return [downloadLocation, isRecord(digest) ? digest['sha256'] : undefined]
    }),
  ]
}

/** The `resolvedDependencies` of a document, of a statement, or of what a signed envelope carries. */
function dependenciesIn(document: JsonObject): unknown {
  const { payload, predicate, buildDefinition, resolvedDependencies } = document
  const carried =
    typeof payload === 'string'
      ? parsedJson(Buffer.from(payload, 'base64').toString())
      : (predicate ?? buildDefinition)
  return isRecord(carried) ? dependenciesIn(carried) : resolvedDependencies
}

function pairsInList(text: string): readonly Pair[] {
  return text.split('\n').map((line): Pair => {
    const [digest, , url] = line.trimEnd().split(' ')
    return [url, digest]
  })
}

function records(found: unknown): readonly JsonObject[] {
  return Array.isArray(found) ? found.filter(isRecord) : []
}

/** Whether the content of a URL changes with each update of its archive: a Release file, an index, or another file of a suite. */
export function changesWithUpdates({ url }: NamedFile): boolean {
  const { kind, ofSuite = false } = classify(new URL(url).pathname)
  return kind === 'release' || kind === 'index' || kind === 'pdiff' || kind === 'by-hash' || ofSuite
}
