/**
 * Fills the script `/_cachesvc/setup.sh`, and the detection script that it installs, with the address of this service. apt asks the
 * detection script whether this service answers. The shell of both is in templates/operations.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** Needs what every Debian has: sh, timeout (coreutils) and perl-base. */
export function detectionScript({ here }: { readonly here: Endpoint }): string {
  return fill(detectionText.trimEnd(), { url: here.url, host: here.host, port: `${here.port}` })
}

/**
 * A script for plain sh that configures apt on a client. It can be run again, `--undo` takes back what it did, and a download that
 * broke off does nothing.
 */
export function setupScript(setting: { readonly here: Endpoint }): string {
  // setup.sh adds a line of its own below the first line, by which it knows the file.
  const detection = detectionScript(setting).replace('#!/bin/sh\n', '')
  return fill(setupText, { url: setting.here.url, aptFile, scriptFile, detection })
}

/** The text with a value for each `{{name}}`. Throws when there is no value of that name. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`there is no value for {{${name}}}`)
    return value
  })
}
