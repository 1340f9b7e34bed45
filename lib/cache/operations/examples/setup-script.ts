/**
 * Fills the script `/_cachesvc/setup.sh`, and the detection script that it installs, with the addresses of this service and of those
 * that clients may use in its place. apt asks the detection script which of them answers. The shell of both is in templates/operations.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Authority, formatAuthority } from '../../../http/message/target.ts'
import { packageRoot } from '../../../package.ts'
import type { Endpoint } from '../endpoint.ts'

/** The file apt reads the proxy from in all examples. */
export const aptFile = '/etc/apt/apt.conf.d/30cachesvc'

/** Where the detection script is installed. */
export const scriptFile = '/usr/local/bin/apt-proxy-detect'

// Read at import: a file that is missing stops the start.
const directory = join(packageRoot(), 'templates', 'operations')
const setupText = readFileSync(join(directory, 'setup.sh'), 'utf8')
const detectionText = readFileSync(join(directory, 'apt-proxy-detect'), 'utf8')

/** What the scripts are filled with. */
export interface ScriptSetting {
  readonly here: Endpoint
  /** `index.proxies`; empty when clients know this service alone. */
  readonly proxies: readonly Authority[]
}

/** The proxies that clients try, in this order. */
function proxyList({ here, proxies }: ScriptSetting): readonly string[] {
  const urls = proxies.map(proxy => `http://${formatAuthority(proxy)}`)
  return urls.length === 0 ? [here.url] : urls
}

/** Needs what every Debian has: sh, timeout (coreutils), perl-base and logger (bsdutils). */
export function detectionScript(setting: ScriptSetting): string {
  return fill(detectionText.trimEnd(), { proxies: proxyList(setting).join(' ') })
}

/**
 * A script for plain sh that configures apt on a client. It can be run again, `--undo` takes back what it did, and a download that
 * broke off does nothing.
 */
export function setupScript(setting: ScriptSetting): string {
  // setup.sh adds a line of its own below the first line, by which it knows the file.
  const detection = detectionScript(setting).replace('#!/bin/sh\n', '')
  const all = proxyList(setting)
  // Each service keeps generations of its own: a snapshot is asked of one of them, whichever proxy carries the request.
  const [first = setting.here.url] = all
  return fill(setupText, { urls: all.join(' or '), first, aptFile, scriptFile, detection })
}

/** The text with a value for each `{{name}}`. Throws when there is no value of that name. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`there is no value for {{${name}}}`)
    return value
  })
}
