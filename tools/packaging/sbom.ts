/**
 * The list of the parts of a program for those who look for known weaknesses: a software bill of materials, CycloneDX 1.6 as JSON. It has
 * the npm packages that package-lock.json names for the program, and the Node.js that a Debian package brings. Pure.
 */

import type { Seconds } from '../../lib/async/clock.ts'
import { jsonText } from '../../lib/json.ts'
import { uuidOf } from '../../lib/uuid.ts'
import type { NodePin } from './carried-node.ts'
import { type LockedPackage, type LockedPackages, needsOf, placeOf } from './locked-packages.ts'

interface Described {
  readonly name: string
  readonly version: string
  readonly summary: string
  /** The SPDX identifier of our own licence. */
  readonly licence: string
  /** The names of the packages that the program itself imports. */
  readonly imports: readonly string[]
  readonly packages: LockedPackages
  /** The Node.js of the Debian packages that bring one. */
  readonly node?: NodePin | undefined
  readonly at: Seconds
}

interface Component {
  readonly type: 'application' | 'library' | 'platform'
  readonly 'bom-ref': string
  readonly name: string
  readonly group?: string
  readonly version: string
  readonly purl: string
  readonly licenses: readonly object[]
  readonly hashes?: ReadonlyArray<{ readonly alg: string; readonly content: string }>
}

/** The document as text. The same facts make the same bytes. */
export function sbom(described: Described): string {
  const { name, version, summary, licence, packages, imports, node, at } = described
  const purls = new Map([...packages].map(([path, entry]) => [path, purlOf(path, entry)]))
  const refOf = (path: string) => purls.get(path) ?? path
  const own = `pkg:npm/${name}@${version}`
  const nodes = node === undefined ? [] : nodeComponents(node)
  const libraries = [...packages].map(([path, entry]) => library(path, entry))
  const components = unique([...libraries, ...nodes])
  const direct = imports.map(wanted => refOf(placeOf(packages, wanted, '')))
  const needed = [...packages].map(([path, entry]) => ({
    ref: refOf(path),
    dependsOn: needsOf(entry).map(wanted => refOf(placeOf(packages, wanted, path))),
  }))
  const ownNeeds = [...direct, ...nodes.map(({ purl }) => purl)].sort()
  const document = {
    metadata: {
      timestamp: new Date(at * 1000).toISOString(),
      component: {
        type: 'application',
        'bom-ref': own,
        name,
        version,
        description: summary,
        purl: own,
        licenses: [{ license: { id: licence } }],
      },
    },
    components,
    dependencies: [
      { ref: own, dependsOn: ownNeeds },
      ...nodes.map(({ purl }) => ({ ref: purl, dependsOn: [] })),
      ...needed.filter(({ ref }, index) => needed.findIndex(other => other.ref === ref) === index),
    ],
  }
  const frame = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify(document))}`,
    version: 1,
  }
  return jsonText({ ...frame, ...document })
}

function library(path: string, entry: LockedPackage): Component {
  const [name = '', scope] = nameAt(path).split('/').reverse()
  const { version, license, integrity } = entry
  const purl = purlOf(path, entry)
  return {
    type: 'library',
    'bom-ref': purl,
    ...(scope === undefined ? {} : { group: scope }),
    name,
    version,
    purl,
    licenses: license === undefined ? [] : [{ license: { id: license } }],
    ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
  }
}

/** The Node.js of each kind of machine, as the npm package that it is taken from. */
function nodeComponents({ version, packages }: NodePin): Component[] {
  return Object.values(packages).map(({ name, integrity }) => {
    const purl = `pkg:npm/${name}@${version}`
    return {
      type: 'platform',
      'bom-ref': purl,
      name,
      version,
      purl,
      licenses: [{ license: { name: 'Node.js, in the file node.LICENSE of the package' } }],
      hashes: [hashOf(integrity)],
    }
  })
}

/** `node_modules/a/node_modules/@b/c` is `@b/c`. */
function nameAt(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

/** A package URL, in which the `@` of a scope is written `%40`. */
function purlOf(path: string, { version }: LockedPackage): string {
  return `pkg:npm/${nameAt(path).replace('@', '%40')}@${version}`
}

/** A digest as npm writes it, `sha512-` and base64, as CycloneDX does. */
function hashOf(integrity: string): { readonly alg: string; readonly content: string } {
  const [algorithm = '', digest = ''] = integrity.split('-')
  const alg = algorithm.toUpperCase().replace('SHA', 'SHA-')
  return { alg, content: Buffer.from(digest, 'base64').toString('hex') }
}

/** A version that two packages need in two places is one component. */
function unique(components: readonly Component[]): Component[] {
  const byPurl = new Map(components.map(component => [component.purl, component]))
  return [...byPurl.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1))
}
