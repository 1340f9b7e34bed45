/**
 * Fills the script `/_cachesvc/setup.sh`, and the detection script that it installs, with the addresses of this service and of the
 * proxies that clients may use in its place. apt asks the detection script which of them answers. Both scripts are in
 * templates/operations.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Authority, formatAuthority } from '../../../http/message/target.ts'
import { packageRoot } from '../../../package.ts'
import type { Endpoint } from '../endpoint.ts'

/** The file in all examples that tells apt the proxy. */
export const aptFile = '/etc/apt/apt.conf.d/30cachesvc'

/** The path of the installed detection script. */
export const scriptFile = '/usr/local/bin/apt-proxy-detect'

// The files are read at import, so that the service does not start without them.
const directory = join(packageRoot(), 'templates', 'operations')
const setupText = readFileSync(join(directory, 'setup.sh'), 'utf8')
const detectionText = readFileSync(join(directory, 'apt-proxy-detect'), 'utf8')

/** The values for the scripts. */
export interface ScriptSetting {
  readonly here: Endpoint
  /** The members of `index.proxies`; empty when clients use this service alone. */
  readonly proxies: readonly Authority[]
}

/** The URLs of the proxies that clients try, in this order. */
function proxyList({ here, proxies }: ScriptSetting): readonly string[] {
  const urls = proxies.map(proxy => `http://${formatAuthority(proxy)}`)
  return urls.length === 0 ? [here.url] : urls
}

/** The detection script. It needs only programs of every Debian: sh, timeout (coreutils), perl-base and logger (bsdutils). */
export function detectionScript(setting: ScriptSetting): string {
  return fillTemplate(detectionText.trimEnd(), { proxies: proxyList(setting).join(' ') })
}

/**
 * A script for plain sh that configures apt on a client. It can be run again, and `--undo` undoes its changes. A script whose download
 * broke off does nothing.
 */
export function setupScript(setting: ScriptSetting): string {
  // setup.sh writes the first line itself, with a line below by which it recognises the file.
  const detection = detectionScript(setting).replace('#!/bin/sh\n', '')
  const all = proxyList(setting)
  // Each service has its own generations, so a snapshot is always asked from the first one, through any of the proxies.
  const [first = setting.here.url] = all
  return fillTemplate(setupText, { urls: all.join(' or '), first, aptFile, scriptFile, detection })
}

/** The text with each `{{name}}` replaced by its value. Throws when there is no value of that name. */
export function fillTemplate(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`there is no value for {{${name}}}`)
    return value
  })
}
