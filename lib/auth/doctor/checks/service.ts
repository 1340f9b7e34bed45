/**
 * Checks whether the service runs at its own address, as this instance, with the configuration of its files.
 */
import { Fields } from '../../../http/message/field.ts'
import { formatAuthority, type TargetUri } from '../../../http/message/target.ts'
import { packageVersion } from '../../../package.ts'
import { fingerprint } from '../../probe/probe.ts'
import { ask, type Outcome } from '../ask.ts'
import { type Answer, doubtfulFinding, type Finding, goodFinding, wrongFinding } from '../check.ts'
import { addressOf, directProbe, dynamicFile, type Examination, isOurMetadata } from '../facts.ts'

export async function instance(of: Examination): Promise<Answer> {
  const { config } = of
  const { outcome, answer } = await directProbe(of)
  const at = formatAuthority(addressOf(config.listen, '/'))
  const unit = `authproxy@${config.instance}`
  if (!outcome.ok) {
    return wrongFinding(
      `no answer from ${at}: ${outcome.why}`,
      `start it: systemctl start ${unit}; why it does not run: journalctl -u ${unit}. If a socket unit listens for it, set proxy.listenAddress to the address of that unit`,
    )
  }
  if (answer !== undefined) {
    const found = `version ${answer.version} runs`
    const installed = packageVersion()
    if (answer.version === installed) return goodFinding(`${found} for ${config.baseUrl}`)
    return doubtfulFinding(`${found}, ${installed} is installed`, `systemctl restart ${unit}`)
  }
  const found = `an authproxy for ${config.baseUrl} answers at ${at}`
  if (!isOurMetadata(config, outcome)) {
    return wrongFinding(
      `another program answers at ${at}, with ${outcome.status}`,
      'another program or instance listens on the address of proxy.listenAddress: ss -ltnp',
    )
  }
  if ((await dynamicFile(of)).problem !== undefined) {
    return doubtfulFinding(
      found,
      'it says more only to a user who can read its keys: run this as the service user',
    )
  }
  return wrongFinding(
    `${found}, but not one that has the keys of ${config.configPath}`,
    'only the instance itself can answer the rest: run this as its user and with its configuration; after an upgrade, restart it',
  )
}

export async function configuration(of: Examination): Promise<Answer> {
  const { answer } = await directProbe(of)
  if (answer === undefined) return undefined
  const unit = `authproxy@${of.config.instance}`
  if (answer.waiting.length > 0) {
    const waiting = answer.waiting.join(', ')
    return doubtfulFinding(
      `these settings wait for a restart: ${waiting}`,
      `systemctl restart ${unit}`,
    )
  }
  if (answer.config === fingerprint(of.config)) return goodFinding('the one read here')
  return doubtfulFinding(
    'the service runs with another configuration than the one read here',
    `systemctl reload ${unit}, and see in its log whether it accepted the configuration; or run this with the configuration and the environment of the service`,
  )
}

export async function readiness(of: Examination): Promise<Answer> {
  const { admin } = of.config
  if (admin === undefined) return []
  if (!(await directProbe(of)).outcome.ok) return undefined
  const uri = addressOf(admin, '/readyz')
  return judgeReadiness(uri, await ask(of, { uri, fields: Fields.of(['Accept', '*/*']) }))
}

export function judgeReadiness(uri: TargetUri, outcome: Outcome): Finding {
  if (!outcome.ok) {
    return wrongFinding(
      `no answer from ${formatAuthority(uri)}: ${outcome.why}`,
      'is admin.listenAddress new? A change of it takes effect with a restart',
    )
  }
  if (outcome.status === 200) return goodFinding('ready')
  return wrongFinding(
    `${outcome.status} ${outcome.content.trim().replaceAll('\n', ': ')}`,
    'the sentence says what keeps logins from working',
  )
}
