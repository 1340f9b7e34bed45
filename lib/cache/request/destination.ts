/**
 * Where a request leads: what it asks for, where that is kept and fetched, and whether the target may be reached at all. Who
 * asks is not its affair.
 *
 * # Facts
 * - All of it follows from the rules, the target, Host, the listener the request came in by and the tunnel it came
 *   through; nothing else of a request is looked at. So it is remembered, and the work (canonical spelling, host lists, the kind of the path) done once for a
 *   target in demand: a third of what a warm hit used to cost.
 * - Targets in demand are one object however often they are asked for (`TargetReader`), and what is remembered of one goes
 *   when the reader forgets it: the bound is the reader's. Other rules are another `Destinations`.
 */
import type { Peer } from '../../http/message/message.ts'
import {
  type Authority,
  formatAuthority,
  formatUri,
  type Target,
  type TargetUri,
} from '../../http/message/target.ts'
import type { About } from '../answer/representation.ts'
import { type ArchivePath, classify } from '../archive/path.ts'
import { type Admission, admitTarget } from '../policy/policy.ts'
import { route } from '../policy/route.ts'
import { carriesCredentials } from '../policy/routing.ts'
import type { Rules } from '../policy/rules.ts'
import { canonicalUri } from '../store/key.ts'
import { type Asked, type EffectiveTarget, effectiveTarget, type FetchMode } from './client-mode.ts'

/** A file of an archive. */
export interface FileDestination {
  readonly kind: 'file'
  /** How it was asked for. */
  readonly mode: FetchMode
  /** What the client wrote, the way it wrote it. */
  readonly asked: TargetUri
  /** The target the origin is asked for, in its canonical spelling: of two spellings none can put its answer under the other's name. */
  readonly uri: TargetUri
  /** The name it is kept under. */
  readonly key: string
  readonly archive: ArchivePath
  readonly about: About
  /** Whether credentials sent for what was asked may go to where it is fetched. */
  readonly credentials: boolean
  /** Whether it may be reached, whoever asks. */
  readonly admission: Admission
}

/** No key can be made of it: the path has control characters or climbs above its root. */
export interface Unkeyable {
  readonly kind: 'unkeyable'
}

export type Destination =
  | Exclude<EffectiveTarget, { readonly kind: 'fetch' }>
  | Unkeyable
  | FileDestination

interface Remembered {
  readonly host: string | undefined
  readonly secure: boolean
  readonly local: Peer
  readonly tunnelEnd: Authority | undefined
  readonly destination: FileDestination
}

/** The destinations under one set of rules. */
export class Destinations {
  readonly rules: Rules
  readonly #known = new WeakMap<Target, Remembered>()

  constructor(rules: Rules) {
    this.rules = rules
  }

  /** Never throws. */
  of(request: Asked): Destination {
    const { target, method, fields, secure, local, tunnelEnd } = request
    const host = fields.get('host')
    const known = method === 'CONNECT' ? undefined : this.#known.get(target)
    if (
      known?.host === host &&
      known?.secure === secure &&
      known.tunnelEnd?.host === tunnelEnd?.host &&
      known.tunnelEnd?.port === tunnelEnd?.port &&
      known.local.port === local.port &&
      known.local.address === local.address
    ) {
      return known.destination
    }
    const destination = destinationOf(request, this.rules)
    if (destination.kind === 'file') {
      this.#known.set(target, { host, secure, local, tunnelEnd, destination })
    }
    return destination
  }
}

function destinationOf(request: Asked, rules: Rules): Destination {
  const asked = effectiveTarget(request, rules.policy.own)
  if (asked.kind !== 'fetch') return asked
  const spelt = canonicalUri(asked.uri)
  if (spelt === undefined) return { kind: 'unkeyable' }
  const { target, origins } = route(spelt, rules.routes)
  const [uri] = origins
  const key = formatUri(target)
  const archive = classify(target.path)
  return {
    kind: 'file',
    mode: asked.mode,
    asked: asked.uri,
    uri,
    key,
    archive,
    about: { key, kind: archive.kind, origin: formatAuthority(uri, uri.scheme) },
    credentials: carriesCredentials(spelt, uri),
    admission: admitBoth(spelt, uri, rules),
  }
}

/** Both the asked and the routed target must be admitted; the stricter admission counts. */
function admitBoth(asked: TargetUri, routed: TargetUri, { policy }: Rules): Admission {
  const first = admitTarget({ kind: 'fetch', scheme: asked.scheme, authority: asked }, policy)
  if ('deny' in first) return first
  const second = admitTarget({ kind: 'fetch', scheme: routed.scheme, authority: routed }, policy)
  if ('deny' in second) return second
  return first.allow === 'passthrough' ? first : second
}
