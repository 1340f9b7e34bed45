/**
 * Extensions of RFC 5280: the names of a certificate, and the two for which @peculiar/x509 has no class, name constraints (4.2.1.10) and
 * the number of a revocation list (5.2.3).
 */
import { AddressSet, isIP } from '../ip.ts'
import { library, type x509 } from './library.ts'

/** The names for which a certificate is valid, DNS names and IP addresses (4.2.1.6). */
export function alternativeNames(names: readonly string[], critical = false): x509.Extension {
  const general = names.map(value => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const)
  return new (library().x509.SubjectAlternativeNameExtension)(general, critical)
}

/** The names an authority may issue for: DNS names, each with all names below it, and networks in CIDR notation. */
export interface PermittedNames {
  readonly names: readonly string[]
  readonly networks: readonly string[]
}

/** Name constraints that permit only these names and networks. The extension is critical, as RFC 5280 demands. */
export function nameConstraints({ names, networks }: PermittedNames): x509.Extension {
  const { asn1, structures, x509 } = library()
  const { GeneralName, GeneralSubtree, GeneralSubtrees, NameConstraints } = structures
  const subtree = (base: InstanceType<typeof GeneralName>) => new GeneralSubtree({ base })
  const none = [
    ...(names.length > 0 ? [] : [new GeneralName({ dNSName: '' })]),
    ...(networks.length > 0 ? [] : everywhere.map(iPAddress => new GeneralName({ iPAddress }))),
  ].map(subtree)
  const permitted = [
    ...names.map(dNSName => subtree(new GeneralName({ dNSName }))),
    ...networks.map(iPAddress => subtree(new GeneralName({ iPAddress }))),
  ]
  const constraints = new NameConstraints({
    ...(permitted.length > 0 ? { permittedSubtrees: new GeneralSubtrees(permitted) } : {}),
    ...(none.length > 0 ? { excludedSubtrees: new GeneralSubtrees(none) } : {}),
  })
  const value = asn1.AsnConvert.serialize(constraints)
  return new x509.Extension(structures.id_ce_nameConstraints, true, value)
}

const everywhere = ['0.0.0.0/0', '::/0'] as const

/**
 * Makes a function of a certificate's name constraints: whether it may issue for a DNS name or an IP address. Malformed constraints permit
 * nothing.
 */
export function nameConstraintCheck(
  extensions: readonly x509.Extension[],
): (name: string) => boolean {
  const { asn1, structures } = library()
  const found = extensions.find(({ type }) => type === structures.id_ce_nameConstraints)
  if (found === undefined) return () => true
  try {
    const constraints = asn1.AsnConvert.parse(found.value, structures.NameConstraints)
    const { permittedSubtrees, excludedSubtrees } = constraints
    const permitted = subtrees(permittedSubtrees)
    const excluded = subtrees(excludedSubtrees)
    return name => {
      const kind = isIP(name) === 0 ? 'names' : 'networks'
      if (excluded[kind].some(within => within(name))) return false
      return permitted[kind].length === 0 || permitted[kind].some(within => within(name))
    }
  } catch {
    return () => false
  }
}

type Within = (name: string) => boolean

type Subtrees = Iterable<{
  readonly base: { readonly dNSName?: string; readonly iPAddress?: string }
}>

function subtrees(from: Subtrees | undefined): { names: Within[]; networks: Within[] } {
  const names: Within[] = []
  const networks: Within[] = []
  for (const { base } of from ?? []) {
    if (base.dNSName !== undefined) names.push(belowName(base.dNSName.toLowerCase()))
    if (base.iPAddress !== undefined) networks.push(inNetwork(base.iPAddress))
  }
  return { names, networks }
}

/** A name "constructed by simply adding zero or more labels to the left". After a leading dot it is one or more labels, as in OpenSSL. */
function belowName(base: string): Within {
  if (base === '') return () => true
  if (base.startsWith('.')) return name => name.endsWith(base)
  return name => name === base || name.endsWith(`.${base}`)
}

function inNetwork(cidr: string): Within {
  // This throws for an address constraint whose mask is not contiguous.
  const network = AddressSet.fromCidrs([cidr])
  return address => network.has(address)
}

export function listNumberExtension(number: number): x509.Extension {
  const { asn1, structures, x509 } = library()
  const value = asn1.AsnConvert.serialize(new structures.CRLNumber(number))
  return new x509.Extension(structures.id_ce_cRLNumber, false, value)
}

/** The number among a revocation list's extensions; undefined when it has none. Throws when it is malformed. */
export function listNumberIn(extensions: readonly x509.Extension[]): number | undefined {
  const { asn1, structures } = library()
  const found = extensions.find(({ type }) => type === structures.id_ce_cRLNumber)
  // The library gives a number of more than four bytes as decimal digits.
  return found === undefined
    ? undefined
    : Number(asn1.AsnConvert.parse(found.value, structures.CRLNumber).value)
}
