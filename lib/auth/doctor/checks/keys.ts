/**
 * The dynamic configuration: whether its file is there, is the service's own and nobody else's, and what its keys are worth.
 * Judges facts; the last function gathers them.
 */
import { X509Certificate } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Milliseconds } from '../../../async/clock.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Config } from '../../config/config.ts'
import type { DynamicConfig } from '../../keys/dynamic-config.ts'
import { checkSaveable, readDynamicConfig } from '../../keys/dynamic-file.ts'
import { failuresFile, revocationsFile } from '../../keys/paths.ts'
import type { SamlKeyPair } from '../../saml/contract.ts'
import { type Diagnosis, dayOf, doubtful, right, wrong } from '../check.ts'

/** Who owns a file, and who may read it. */
export interface FileFacts {
  readonly path: string
  readonly owner: number
  /** Permission bits. */
  readonly mode: number
}

const day = 86_400_000
const SOON: Milliseconds = 30 * day
const what = 'dynamic configuration'

/** Files that are not the service's own, or that others may read. `directory` tells whose they ought to be. */
export function judgeFiles(
  directory: Pick<FileFacts, 'path' | 'owner'>,
  files: readonly FileFacts[],
): readonly Diagnosis[] {
  const found: Diagnosis[] = []
  for (const { path, owner } of files) {
    if (owner === directory.owner) continue
    found.push(
      wrong(
        'owner of files',
        `${path} belongs to user ${owner}, its directory to user ${directory.owner}`,
        `the service could not read or replace it: chown --reference=${directory.path} ${path}`,
      ),
    )
  }
  const [dynamic] = files
  if (dynamic !== undefined && (dynamic.mode & 0o077) !== 0) {
    const mode = (dynamic.mode & 0o777).toString(8).padStart(4, '0')
    found.push(
      wrong(
        what,
        `${dynamic.path} has mode ${mode}: others on this machine can read the keys`,
        `chmod 600 ${dynamic.path}; then authproxy rotate-keys, for they may have been read`,
      ),
    )
  }
  return found
}

/** What the keys themselves are worth. */
export function judgeKeys(
  dynamic: DynamicConfig,
  config: Config,
  now: Milliseconds,
): readonly Diagnosis[] {
  if (dynamic.entityId !== config.saml.entityId) {
    return [
      wrong(
        what,
        `${config.configPath} was made for ${dynamic.entityId}`,
        'give every instance a configPath of its own; after a change of domain, delete the file',
      ),
    ]
  }
  const [newest, ...older] = dynamic.saml
  const found = right(what, `${config.configPath}, made for this instance`)
  return newest === undefined ? [found] : [found, judgeOwnCertificate(newest, older, now)]
}

function judgeOwnCertificate(
  newest: SamlKeyPair,
  older: readonly SamlKeyPair[],
  now: Milliseconds,
): Diagnosis {
  const about = 'own SAML certificate'
  const ends = Date.parse(new X509Certificate(newest.certificate).validTo)
  const mend =
    'authproxy rotate-keys makes a new one; the identity provider has keys.overlap to learn it'
  if (ends <= now) return wrong(about, `expired on ${dayOf(ends)}`, mend)
  if (ends - now < SOON) {
    return doubtful(about, `until ${dayOf(ends)}, ${Math.floor((ends - now) / day)} days`, mend)
  }
  const retiring = older.filter(({ retires }) => retires !== undefined && retires > now)
  const last = Math.max(...retiring.map(({ retires }) => retires ?? 0))
  const more =
    retiring.length === 0
      ? ''
      : `; the one before decrypts until ${dayOf(last)}, by then the identity provider has to know this one`
  return right(about, `until ${dayOf(ends)}${more}`)
}

/** What was found of the dynamic file. */
export interface FoundKeys {
  readonly diagnoses: readonly Diagnosis[]
  /** Undefined when it is not there, or cannot be read. */
  readonly dynamic: DynamicConfig | undefined
  /** Whether it is, or may be, there and cannot be read. */
  readonly unreadable: boolean
}

/** Reads the dynamic file and looks at the files beside it. */
export async function examineKeys(config: Config, now: Milliseconds): Promise<FoundKeys> {
  const { configPath, saml } = config
  const diagnoses: Diagnosis[] = []
  try {
    const directory = await factsOf(dirname(configPath))
    const paths = [
      ...[configPath, failuresFile(configPath), revocationsFile(configPath)],
      saml.metadataCacheFile,
    ]
    const files = await Promise.all(paths.map(factsOf))
    const there = files.filter(file => file !== undefined)
    if (directory !== undefined) {
      const own = files[0] === undefined ? [] : judgeFiles(directory, there)
      diagnoses.push(...own)
    }
    await checkSaveable(configPath)
    const dynamic = await readDynamicConfig(configPath)
    if (dynamic === undefined) {
      diagnoses.push(right(what, `${configPath} is not there yet; the first start makes it`))
    } else diagnoses.push(...judgeKeys(dynamic, config, now))
    return { diagnoses, dynamic, unreadable: false }
  } catch (error) {
    diagnoses.push(wrong(what, explainError(error), mendOf(error, configPath)))
    return { diagnoses, dynamic: undefined, unreadable: true }
  }
}

async function factsOf(path: string): Promise<FileFacts | undefined> {
  try {
    const { uid, mode } = await stat(path)
    return { path, owner: uid, mode }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function mendOf(error: unknown, path: string): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return systemCode(cause) === 'EACCES'
    ? `run this as the service user: sudo -u authproxy authproxy doctor; when that is who runs it, the directory ${dirname(path)} has to be its own`
    : 'the service does not start like this; the sentence says what to do'
}
