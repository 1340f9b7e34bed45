/**
 * The identity provider: can its metadata be had, is it of use, for how long, and does its clock agree with ours? The metadata
 * is fetched, read and judged by the code the service itself uses.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import { Fields } from '../../../http/message/field.ts'
import { parseUri } from '../../../http/message/target.ts'
import type { Config } from '../../config/config.ts'
import type { IdpKey } from '../../saml/metadata/idp-key.ts'
import type { IdpMetadata } from '../../saml/metadata/idp-metadata.ts'
import {
  fetchMetadata,
  judgeMetadata,
  readMetadata,
} from '../../saml/metadata/idp-metadata-document.ts'
import type { Asker, Outcome } from '../ask.ts'
import { type Diagnosis, dayOf, doubtful, right, wrong } from '../check.ts'
import { clockOf, judgeClock } from '../clocks.ts'

const hour = 3_600_000
const day = 24 * hour
const SOON: Milliseconds = 30 * day

/** Fetches or reads the metadata, judges it, and asks the sign-on address for the time. */
export async function examineIdp(
  config: Config,
  by: { readonly asker: Asker; readonly clock: Clock },
): Promise<readonly Diagnosis[]> {
  const { asker, clock } = by
  const { idp, diagnoses } = await metadataOf(config, by)
  if (idp === undefined) return diagnoses
  const [signOn] = idp.singleSignOn
  const uri = parseUri(signOn?.location ?? '')
  if ('problem' in uri) return diagnoses
  const { query: _, ...place } = uri
  const outcome = await asker.ask({
    uri: place,
    method: 'HEAD',
    fields: Fields.of(['Accept', '*/*']),
  })
  const now = clock.now()
  const { from } = config.saml.idpMetadata
  const about = [...judgeUse(idp, now, from), judgeIdpClock(config, outcome)]
  return [...diagnoses, ...about]
}

async function metadataOf(
  config: Config,
  { asker, clock }: { readonly asker: Asker; readonly clock: Clock },
): Promise<{ readonly diagnoses: readonly Diagnosis[]; readonly idp: IdpMetadata | undefined }> {
  const what = 'IdP metadata'
  const { saml } = config
  const { idpMetadata, metadataCacheFile: cache } = saml
  const judged = async (bytes: Uint8Array, from: string) =>
    judgeMetadata(bytes, from, {
      config: saml,
      now: clock.now(),
      thread: { clock, signal: new AbortController().signal },
    })
  if (idpMetadata.from === 'file') {
    const { path } = idpMetadata
    try {
      const idp = await judged(await readMetadata(path), path)
      return { idp, diagnoses: [right(what, `${path}: ${inShort(idp)}`)] }
    } catch (error) {
      const mend =
        'get the metadata from whoever runs the identity provider, put it there, readable for the service user, and restart'
      return { idp: undefined, diagnoses: [wrong(what, explainError(error), mend)] }
    }
  }
  const { url } = idpMetadata
  try {
    const signal = new AbortController().signal
    const { bytes } = await fetchMetadata(url, { origin: asker.origin, clock, signal })
    const idp = await judged(bytes, url)
    return { idp, diagnoses: [right(what, `${url}: ${inShort(idp)}`)] }
  } catch (error) {
    const found = explainError(error)
    try {
      const idp = await judged(await readMetadata(cache), cache)
      const mend = `what was fetched last is used, ${untilOf(idp)}; open idpMetadataURL from this machine`
      return { idp, diagnoses: [doubtful(what, found, mend)] }
    } catch {
      const mend =
        'nobody can log in, and there is no usable copy of what was fetched last: open idpMetadataURL from this machine; only 200 counts, so write redirects out'
      return { idp: undefined, diagnoses: [wrong(what, found, mend)] }
    }
  }
}

function inShort(idp: IdpMetadata): string {
  const keys = `${idp.keys.length} signing ${idp.keys.length === 1 ? 'key' : 'keys'}`
  const logout = idp.singleLogout.length === 0 ? ', no single logout' : ''
  return `${idp.entityId}, ${keys}${logout}, ${untilOf(idp)}`
}

function untilOf({ validUntil }: IdpMetadata): string {
  return validUntil === undefined ? 'valid without an end' : `valid until ${dayOf(validUntil)}`
}

/** What metadata in use says of the time to come, and what in it could not be used. */
export function judgeUse(
  idp: IdpMetadata,
  now: Milliseconds,
  from: 'url' | 'file',
): readonly Diagnosis[] {
  const found: Diagnosis[] = []
  const { validUntil, keys, warnings } = idp
  // What is fetched anew every half hour may be good for a day; a file waits for somebody to come.
  const soon = from === 'url' ? 12 * hour : SOON
  if (validUntil !== undefined && validUntil - now < soon) {
    const hours = Math.floor((validUntil - now) / hour)
    found.push(
      doubtful(
        'end of the IdP metadata',
        hours < 72 ? `in ${hours} h` : `in ${Math.floor(hours / 24)} days`,
        from === 'url'
          ? 'the identity provider has to publish a later validUntil by then; nobody can log in after it'
          : 'put newer metadata in its place and restart; nobody can log in after it',
      ),
    )
  }
  for (const warning of warnings) {
    found.push(
      doubtful(
        'IdP metadata in detail',
        warning,
        'tell whoever runs the identity provider; the rest is used',
      ),
    )
  }
  return [...found, judgeCertificates(keys, now, from)]
}

/** Certificates are not enforced by us, but their ends announce that keys will change. */
function judgeCertificates(
  keys: readonly IdpKey[],
  now: Milliseconds,
  from: 'url' | 'file',
): Diagnosis {
  const what = 'IdP certificates'
  const newest = Math.max(...keys.map(({ ends }) => ends))
  const days = Math.floor((newest - now) / day)
  const mend =
    from === 'url'
      ? 'the new one is taken over from idpMetadataURL by itself, as soon as it is published there'
      : 'when the identity provider changes it, logins fail until idpMetadataFile is replaced and the service restarted; idpMetadataURL does that by itself'
  if (newest <= now) {
    return doubtful(what, `the last one expired on ${dayOf(newest)}; it is used all the same`, mend)
  }
  const text = `${keys.length === 1 ? 'one' : keys.length}, the last until ${dayOf(newest)}`
  return newest - now < SOON
    ? doubtful(what, `${text}, ${days} days`, mend)
    : right(what, `${text}, ${days} days`)
}

/** The clock of the identity provider, whose assertions are good for minutes. */
export function judgeIdpClock({ saml }: Config, outcome: Outcome): Diagnosis {
  const what = 'clock against the IdP'
  if (!outcome.ok) {
    return doubtful(
      what,
      `its sign-on address cannot be asked from here: ${outcome.why}`,
      'browsers have to reach it, this machine need not; compare the clocks by hand: date -u',
    )
  }
  return judgeClock(what, clockOf(outcome), {
    doubtful: saml.clockSkew / 3,
    wrong: saml.clockSkew,
    mend: `synchronise the clocks (NTP): from ${saml.clockSkew / 1000} s on (saml.clockSkew) every login is refused`,
  })
}
