/**
 * Checks who owns and can read the dynamic configuration, and how long its certificate is valid.
 */
import { X509Certificate } from 'node:crypto'
import { stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { day, type Milliseconds } from '../../../async/clock.ts'
import { explainError, systemCode, valueUnlessMissing } from '../../../errors.ts'
import { filesOfMarks } from '../../../files/lapsing-marks.ts'
import type { DynamicConfig } from '../../keys/dynamic-config.ts'
import { failuresFile } from '../../pages/failure-records.ts'
import { revocationsPath } from '../../session/revocation.ts'
import {
  type Answer,
  dayOf,
  doubtfulFinding,
  type Finding,
  goodFinding,
  judgeEnd,
  wrongFinding,
} from '../check.ts'
import { dynamicFile, type Examination } from '../facts.ts'

/** The owner of a file, and its permission bits. */
interface FileFacts {
  readonly path: string
  readonly owner: number
  readonly mode: number
}

async function factsOf(path: string): Promise<FileFacts | undefined> {
  const stats = await valueUnlessMissing(stat(path))
  return stats && { path, owner: stats.uid, mode: stats.mode & 0o777 }
}

export async function owners({ config: { configPath, saml } }: Examination): Promise<Answer> {
  const { metadataCacheFile, usedIdsPath } = saml
  try {
    const marks = await Promise.all(
      [revocationsPath(configPath), usedIdsPath].map(path => filesOfMarks(path)),
    )
    const beside = [failuresFile(configPath), metadataCacheFile, ...marks.flat()]
    const found = await Promise.all([dirname(configPath), configPath, ...beside].map(factsOf))
    const [directory, keys, ...others] = found
    if (directory === undefined || keys === undefined) return []
    return judgeOwners(directory, [keys, ...others.filter(file => file !== undefined)])
  } catch (error) {
    return wrongFinding(explainError(error), mendOf(error, configPath))
  }
}

export async function file(of: Examination): Promise<Answer> {
  const { configPath, saml, sharedKeys } = of.config
  const path = sharedKeys ?? configPath
  const { dynamic, problem } = await dynamicFile(of)
  if (problem !== undefined) return wrongFinding(explainError(problem), mendOf(problem, path))
  if (dynamic === undefined && sharedKeys !== undefined) {
    return wrongFinding(
      `${path} does not exist, and keys.shared is on`,
      'copy the file of the instance that makes and rotates the keys',
    )
  }
  if (dynamic === undefined)
    return goodFinding(`${path} does not exist yet; the first start makes it`)
  const { mode = 0 } = (await factsOf(path)) ?? {}
  const open = wrongFinding(
    `${path} has mode ${mode.toString(8).padStart(4, '0')}: other users of this machine can read the keys`,
    `chmod 600 ${path}; then sudo -u authproxy authproxy rotate-keys, because the keys may have been read`,
  )
  // The service also starts with the file of another name, as after a change of `domain`. A lock keeps two instances from
  // sharing one file: 0010.
  const foreign = doubtfulFinding(
    `${path} was made for ${dynamic.entityId}`,
    'right after a change of domain: keys and certificate stay in use. If it belongs to another instance, give this one a configPath of its own',
  )
  const made =
    dynamic.entityId === saml.entityId ? goodFinding(`${path}, made for this instance`) : foreign
  // A group may read files that the operator distributes, because it may read the secrets of Kubernetes.
  return (mode & (sharedKeys === undefined ? 0o077 : 0o007)) === 0 ? made : [open, made]
}

export async function certificate(of: Examination): Promise<Answer> {
  const { dynamic, problem } = await dynamicFile(of)
  if (problem !== undefined) return undefined
  return judgeOwnCertificate(dynamic?.saml ?? [], of.clock.now())
}

export async function volume({ config: { configPath } }: Examination): Promise<Answer> {
  const directory = dirname(configPath)
  const stats = await statfs(directory).catch(() => undefined)
  return stats === undefined ? [] : judgeVolume(directory, stats.type)
}

/** File systems that several machines can share, by their numbers in Linux (statfs(2)). */
const SHARED_VOLUMES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0xc36400, 'CephFS'],
  [0xbd00bd0, 'Lustre'],
])

/** The lock beside the file is a socket, which the kernel of one machine alone knows (admin-socket.ts). */
export function judgeVolume(directory: string, kind: number): Finding[] {
  const name = SHARED_VOLUMES.get(kind)
  if (name === undefined) return []
  return [
    doubtfulFinding(
      `${directory} is on ${name}: an instance on another machine would not see that this one has the files`,
      'let only one machine mount it (ReadWriteOnce), or give each instance a directory on its own disk and a store (docs/several-instances.md)',
    ),
  ]
}

/** The files that belong to another user than their directory. */
export function judgeOwners(directory: FileFacts, files: readonly FileFacts[]): Finding[] {
  return files
    .filter(({ owner }) => owner !== directory.owner)
    .map(({ path, owner }) =>
      wrongFinding(
        `${path} belongs to user ${owner}, its directory to user ${directory.owner}`,
        `the service could not read or replace it: chown --reference=${directory.path} ${path}`,
      ),
    )
}

/** Judges the newest key pair, and names the older one that still decrypts. */
export function judgeOwnCertificate(pairs: DynamicConfig['saml'], now: Milliseconds): Answer {
  const [newest, ...older] = pairs
  if (newest === undefined) return []
  const found = judgeEnd(Date.parse(new X509Certificate(newest.certificate).validTo), {
    now,
    warnWithin: 30 * day,
    mend: 'sudo -u authproxy authproxy rotate-keys makes a new one; the identity provider has to learn it within keys.overlap',
  })
  const last = Math.max(0, ...older.map(({ retires }) => retires ?? 0))
  if (found.state !== 'right' || last <= now) return found
  return goodFinding(
    `${found.found}; the old key decrypts until ${dayOf(last)}, by then the identity provider must know this one`,
  )
}

function mendOf(error: unknown, path: string): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return systemCode(cause) === 'EACCES'
    ? `run this as the service user: sudo -u authproxy authproxy doctor; if you did, that user has to own the directory ${dirname(path)}`
    : 'the service does not start like this'
}
