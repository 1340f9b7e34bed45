/**
 * Checks the other instances whose files stand beside that of this one: no two may have one public host name.
 *
 * # Fact
 * Cookies belong to a host, not to one of its ports (RFC 6265 section 8.5), and the name of the session's cookie is the same for
 * all instances. So a login at one instance ends the session of the other one on the same name.
 */
import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { loadConfigFile } from '../../../config/config-file.ts'
import { configCheck } from '../../config/loading/load-config.ts'
import { type Answer, type Finding, wrongFinding } from '../check.ts'
import type { Examination } from '../facts.ts'

/** Most files that are read. */
const MOST_FILES = 200

/** Compares the public host with those of all files in the same directory. A file that cannot be read, or is wrong, is passed over. */
export async function hostName({
  config,
  from,
}: Pick<Examination, 'config' | 'from'>): Promise<Answer> {
  if (from === 'the environment') return []
  const directory = dirname(resolve(from))
  const names = await readdir(directory).catch(() => [])
  const others = names
    .filter(name => name.endsWith('.yaml') && name !== basename(from))
    .sort()
    .slice(0, MOST_FILES)
  const findings: Finding[] = []
  for (const name of others) {
    const loaded = await loadConfigFile(join(directory, name), configCheck(basename(name, '.yaml')))
    if (!loaded.ok || hostOf(loaded.value.domain) !== hostOf(config.domain)) continue
    findings.push(
      wrongFinding(
        `${join(directory, name)} has the same host name, ${hostOf(config.domain)}: browsers send the cookies of a host to all its ports, so a login at one of the two instances ends the session at the other`,
        'give each instance a host name of its own, such as wiki.example.org and shop.example.org, instead of two ports',
      ),
    )
  }
  return findings
}

function hostOf(domain: string): string {
  return domain.replace(/:\d+$/, '')
}
