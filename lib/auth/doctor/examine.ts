/**
 * `authproxy doctor`: the checks in their order, from what everything else depends on to what is seen last. Each stands by
 * itself and changes nothing; what cannot be asked because of an earlier finding is left out.
 */

import { lookup as systemLookup } from 'node:dns/promises'
import type { Clock } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import type { Lookup } from '../../http/client/name-lookup.ts'
import { parseUri } from '../../http/message/target.ts'
import { targetAuthorities } from '../backend.ts'
import type { Config } from '../config/config.ts'
import { Asker } from './ask.ts'
import { type Diagnosis, doubtful, right, wrong } from './check.ts'
import { examineBackend, examineBackendCertificate } from './checks/backend.ts'
import { examineHeads, examinePaths, examineWebSocket } from './checks/edge.ts'
import { judgeForwarding } from './checks/forwarded-fields.ts'
import { examineIdp } from './checks/idp.ts'
import { examineKeys } from './checks/keys.ts'
import { askEdge, examineCertificate, examineName, judgeEdge } from './checks/public-host.ts'
import { examineReadiness, examineService } from './checks/service.ts'
import { judgeSample, largestFitting, type Sample, samples } from './checks/sessions.ts'
import type { ProbeAnswer, ProbeKeys } from './probe.ts'
import { type Probe, prober } from './probing.ts'

export interface Examination {
  readonly config: Config
  /** Where the configuration was read, and what was said about it. */
  readonly from: string
  readonly warnings: readonly string[]
  /** How many groups the people here are in; undefined: nobody has said. */
  readonly groups: number | undefined
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  /** The resolver; the system's unless told. */
  readonly lookup?: Lookup
  /** Certificates (PEM) of authorities that are trusted besides those of the system. */
  readonly ca?: readonly string[]
}

/** Examines an instance. Never throws: what goes wrong is what is looked for. */
export async function* examine(examination: Examination): AsyncGenerator<Diagnosis> {
  const { config, from, warnings, clock, random, lookup, ca } = examination
  for (const warning of warnings) {
    yield doubtful('configuration', warning, 'see authproxy.yaml(5)')
  }
  if (warnings.length === 0) yield right('configuration', `${from}: no problems`)

  const { diagnoses, dynamic, unreadable } = await examineKeys(config, clock.now())
  yield* diagnoses
  const sealing: ProbeKeys = { keys: dynamic?.sealing ?? [], random }

  const plain = new Asker({ clock, lookup, ca, verify: true })
  // For ways whose certificate is judged apart.
  const lenient = new Asker({ clock, lookup, verify: false })
  try {
    const direct = await examineService(config, prober(plain.ask, clock, sealing), unreadable)
    yield* direct.diagnoses
    if (direct.answered) yield* await examineReadiness(config, plain.ask)
    yield* backend(examination, sealing, direct.answer)

    const sizes = await samples(config, examination.groups, { clock, random })
    yield* edge(examination, {
      probe: prober(lenient.ask, clock, sealing),
      direct: direct.answer,
      unreadable,
      largest: largestFitting(config, sizes),
    })
    yield* await examineIdp(config, { asker: plain, clock })
    for (const sample of sizes) yield judgeSample(config, sample)
  } finally {
    await Promise.all([plain.close(), lenient.close()])
  }
}

async function* backend(
  { config, clock, lookup }: Examination,
  sealing: ProbeKeys,
  direct: ProbeAnswer | undefined,
): AsyncGenerator<Diagnosis> {
  let ca: readonly string[]
  try {
    ca = targetAuthorities(config)
  } catch (error) {
    const mend =
      'the service does not start without it: a PEM file, readable for the service user, with the authority of the backend’s certificate'
    yield wrong('proxy.targetCertificates', explainError(error), mend)
    return
  }
  const asker = new Asker({ clock, lookup, ca, verify: config.targetVerify })
  try {
    const probe = prober(asker.ask, clock, sealing)
    yield* await examineBackend(config, probe, direct?.instance)
    yield* await examineBackendCertificate(config, clock.now())
  } finally {
    await asker.close()
  }
}

async function* edge(
  { config, clock, random, ca, lookup = systemAddresses }: Examination,
  by: {
    readonly probe: Probe
    readonly direct: ProbeAnswer | undefined
    readonly unreadable: boolean
    readonly largest: Sample | undefined
  },
): AsyncGenerator<Diagnosis> {
  const { probe, direct, unreadable, largest } = by
  const { diagnosis, addresses } = await examineName(config, lookup)
  yield diagnosis
  const [address] = addresses
  const base = parseUri(`${config.baseUrl}/`)
  if (address === undefined || 'problem' in base) return
  yield* await examineCertificate(base, { address, now: clock.now(), ca })
  const probed = await askEdge(base, probe)
  yield* judgeEdge(config, { ...probed, unreadable }, direct)
  if (probed.answer === undefined) return
  yield* judgeForwarding(config, probed.answer)
  yield* await examinePaths(base, probe)
  yield await examineWebSocket(base, probe, random)
  if (largest !== undefined) yield* await examineHeads(base, probe, largest)
}

async function systemAddresses(host: string): Promise<readonly string[]> {
  const found = await systemLookup(host, { all: true })
  return found.map(({ address }) => address)
}
