/**
 * The running service, asked at its own address: is it there, is it this one, and does it run with what its files say now?
 */
import { Fields } from '../../../http/message/field.ts'
import { formatAuthority, type TargetUri } from '../../../http/message/target.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { packageVersion } from '../../../package.ts'
import type { Config } from '../../config/config.ts'
import type { Ask, Outcome } from '../ask.ts'
import { type Diagnosis, doubtful, right, wrong } from '../check.ts'
import { fingerprint, type ProbeAnswer } from '../probe.ts'
import type { Probe, Probed } from '../probing.ts'

const what = 'service'
const metadataPath = '/saml/metadata.xml'

/** Asks the service itself. */
export async function examineService(
  config: Config,
  probe: Probe,
  unreadable: boolean,
): Promise<{
  readonly diagnoses: readonly Diagnosis[]
  readonly answer: ProbeAnswer | undefined
  /** Whether anybody answered. */
  readonly answered: boolean
}> {
  const uri = uriOf(config.listen, metadataPath)
  const probed = await probe({ uri, host: config.domain, fields: Fields.empty })
  const diagnoses = judgeService(config, uri, { ...probed, unreadable })
  return { diagnoses, answer: probed.answer, answered: probed.outcome.ok }
}

/** What the service's own address answered; `unreadable` says that it was asked without the keys, which cannot be read. */
export function judgeService(
  config: Config,
  uri: TargetUri,
  { outcome, answer, unreadable }: Probed & { readonly unreadable: boolean },
): readonly Diagnosis[] {
  const at = formatAuthority(uri)
  if (!outcome.ok) {
    return [
      wrong(
        what,
        `nobody answers at ${at}: ${outcome.why}`,
        `start it: systemctl start authproxy@${config.instance}; why it does not: journalctl -u authproxy@${config.instance}. When a socket unit listens for it, proxy.listenAddress has to name that address for this to be seen`,
      ),
    ]
  }
  if (answer === undefined) {
    const ours = outcome.status === 200 && outcome.content.includes(config.saml.entityId)
    if (ours && unreadable) {
      return [
        doubtful(
          what,
          `an authproxy for ${config.baseUrl} answers at ${at}`,
          'more it says only to who can read its keys: run this as the service user',
        ),
      ]
    }
    return [
      ours
        ? wrong(
            what,
            `an authproxy for ${config.baseUrl} answers at ${at}, but not one that has the keys of ${config.configPath}`,
            'the rest can only be asked of the instance itself: run this as its user and with its configuration; after an upgrade, restart it',
          )
        : wrong(
            what,
            `something else answers at ${at} with ${outcome.status}`,
            'another program, or another instance, has the address of proxy.listenAddress: ss -ltnp',
          ),
    ]
  }
  return [...judgeRunning(config, answer)]
}

function* judgeRunning(config: Config, answer: ProbeAnswer): Generator<Diagnosis> {
  const { version, waiting } = answer
  if (version !== packageVersion()) {
    yield doubtful(
      what,
      `version ${version} runs, ${packageVersion()} is installed`,
      `systemctl restart authproxy@${config.instance}`,
    )
  } else yield right(what, `version ${version} runs for ${config.baseUrl}`)
  const about = 'configuration in force'
  if (waiting.length > 0) {
    yield doubtful(
      about,
      `these settings wait for a restart: ${waiting.join(', ')}`,
      `systemctl restart authproxy@${config.instance}`,
    )
  } else if (answer.config !== fingerprint(config)) {
    yield doubtful(
      about,
      'the service runs with another configuration than the one read here',
      `systemctl reload authproxy@${config.instance}, and see in its log whether it was taken; or run this with the configuration, and the environment, of the service`,
    )
  } else yield right(about, 'the one read here')
}

/** Readiness as the admin listener tells it; nothing without one. */
export async function examineReadiness({ admin }: Config, ask: Ask): Promise<readonly Diagnosis[]> {
  if (admin === undefined) return []
  const uri = uriOf(admin, '/readyz')
  return [judgeReadiness(uri, await ask({ uri, fields: Fields.of(['Accept', '*/*']) }))]
}

export function judgeReadiness(uri: TargetUri, outcome: Outcome): Diagnosis {
  const about = 'readiness'
  if (!outcome.ok) {
    return wrong(
      about,
      `nobody answers at ${formatAuthority(uri)}: ${outcome.why}`,
      'is admin.listenAddress new? It waits for a restart',
    )
  }
  if (outcome.status === 200) return right(about, 'ready')
  const said = outcome.content.trim().replaceAll('\n', ': ')
  return wrong(
    about,
    `${outcome.status} ${said}`,
    'the sentence says what keeps logins from working',
  )
}

/** Where a listener is reached from its own machine. */
function uriOf({ address, port }: ListenAddress, path: string): TargetUri {
  const everywhere = address === undefined || address === '0.0.0.0'
  const host = everywhere ? '127.0.0.1' : address === '::' ? '::1' : address
  return { scheme: 'http', host, port, path }
}
