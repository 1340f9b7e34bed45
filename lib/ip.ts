/**
 * IP addresses: one spelling for each, which of them are public, and sets of networks in CIDR notation. Knows only text. Names, and old
 * spellings of IPv4 such as `127.1`, are no addresses here: a resolver must translate them first, and its answer is checked again.
 */
import { BlockList, isIPv4, SocketAddress } from 'node:net'
import { Failure } from './errors.ts'
import { recentEntries } from './recent.ts'

type Family = 'ipv4' | 'ipv6'

/** A network in CIDR notation. An IPv4-mapped one becomes IPv4. */
interface Network {
  readonly address: string
  readonly prefix: number
  readonly family: Family
}

/** Eight groups of 16 bits. IPv4 has its IPv4-mapped form `::ffff:a.b.c.d`. */
type Groups = readonly number[]

/**
 * The family of an address without brackets, which may have a zone; 0 for other text. It answers as `isIP` of Node does, whose expression
 * for IPv6 takes 10 ms to compile at its first use.
 */
export function isIP(text: string): 0 | 4 | 6 {
  if (isIPv4(text)) return 4
  return parseIPv6(text) === undefined ? 0 : 6
}

/**
 * The canonical spelling of an address: IPv4 in dotted form, IPv6 as RFC 5952 writes it, IPv4-mapped IPv6 as IPv4, no zone, no brackets.
 * Undefined when the text is no IP address.
 */
export function normaliseAddress(text: string): string | undefined {
  // `isIPv4` accepts no other spelling.
  if (isIPv4(text)) return text
  const groups = parse(text)
  return groups === undefined ? undefined : format(groups)
}

/**
 * The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, which one host may use as a whole. Other text is
 * returned unchanged.
 */
export function networkOf(address: string): string {
  if (isIPv4(address)) return address
  const groups = parse(address)
  if (groups === undefined || isMapped(groups)) return address
  return format([...groups.slice(0, 4), 0, 0, 0, 0])
}

/** Whether only this machine can reach the address. */
export function isLoopback(address: string): boolean {
  return address === '::1' || address === 'localhost' || address.startsWith('127.')
}

/**
 * Whether an address is in the public Internet, that is, whether the IANA special-purpose registries call it globally reachable. IPv6
 * that contains IPv4 (NAT64, 6to4, Teredo, IPv4-compatible) is judged by the IPv4 address. False for text that is no address. The
 * documentation ranges count as public: no private service uses them, and examples stay usable.
 */
export function isPublicAddress(address: string): boolean {
  const groups = parse(address)
  if (groups === undefined) return false
  special ??= AddressSet.fromCidrs(specialIPv4)
  const carried = carriedIPv4(groups)
  for (const within of carried) if (special.has(within)) return false
  if (carried.length > 0) return true
  // IANA assigns global unicast addresses only in 2000::/3. Loopback, unique-local, link-local, site-local, multicast, other forms of
  // local-use NAT64, discard-only and everything unassigned lie outside. The protocol assignments of 2001::/23 (benchmarks, ORCHID, AMT) lie inside.
  const [first = 0, second = 0] = groups
  return first >> 13 === 1 && !(first === 0x2001 && second < 0x200)
}

/** The addresses of `specialIPv4`, made at first use. */
let special: AddressSet | undefined

/** IPv4 that is not globally reachable: IANA IPv4 Special-Purpose Address Registry, multicast and reserved addresses. */
const specialIPv4 = [
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared by carriers, CGNAT
  '127.0.0.0/8', // loopback
  '169.254.0.0/16', // link-local; clouds keep credentials there
  '172.16.0.0/12', // private
  '192.0.0.0/24', // IETF protocol assignments
  '192.88.99.0/24', // 6to4 relays, withdrawn
  '192.168.0.0/16', // private
  '198.18.0.0/15', // benchmarks of network devices, and the made-up answers of some resolvers
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
]

/** The IPv4 addresses that an IPv6 address contains; none for plain IPv6. */
function carriedIPv4(groups: Groups): readonly string[] {
  const [first, second] = groups
  // RFC 6052, and RFC 8215 for the translators of one network. There the address is in the last 32 bits only if all bits between are zero.
  const local = groups[2] === 1 && zero(groups, 3, 6)
  const nat64 = first === 0x64 && second === 0xff9b && (zero(groups, 2, 6) || local)
  // The third case is IPv4-compatible; `::` and `::1` fall in 0.0.0.0/8.
  if (isMapped(groups) || nat64 || zero(groups, 0, 6)) return [ipv4At(groups, 6)]
  if (first === 0x2002) return [ipv4At(groups, 1)] // 6to4, RFC 3056
  if (first !== 0x2001 || second !== 0) return []
  // Teredo, RFC 4380: the server's address, and the client's with every bit inverted.
  const inverted = groups.map(group => ~group & 0xffff)
  return [ipv4At(groups, 2), ipv4At(inverted, 6)]
}

/** A set of networks. A single address without `/length` is a network of one. */
export class AddressSet {
  // Each family has its own list, because one BlockList would find IPv4 addresses in ::/0.
  readonly #lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  /** Answers for recent addresses, because the same few come often: a BlockList takes 5 µs for one, this 0.1. */
  readonly #answers = recentEntries<string, boolean>(1024)

  /** Throws a Failure on the first text that is no network. */
  static fromCidrs(list: readonly string[]): AddressSet {
    const set = new AddressSet()
    for (const text of list) {
      const network = parseNetwork(text)
      if (typeof network === 'string') throw new Failure(network, { code: 'cidr' })
      const { address, prefix, family } = network
      set.#lists[family].addSubnet(address, prefix, family)
    }
    return set
  }

  /** The networks for JSON, by which configurations are compared. */
  toJSON(): readonly string[] {
    return [...this.#lists.ipv4.rules, ...this.#lists.ipv6.rules]
  }

  /** Whether the address, in any spelling, is in one of the networks. False for text that is no address. */
  has(address: string): boolean {
    const known = this.#answers.get(address)
    if (known !== undefined) return known
    const normal = normaliseAddress(address)
    if (normal === undefined) return false
    const family = familyOf(normal)
    const answer = this.#lists[family].check(normal, family)
    this.#answers.set(address, answer)
    return answer
  }
}

/** The network in CIDR notation, or a sentence that says why the text is not one. */
export function parseNetwork(text: string): Network | string {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  if (written.includes('%')) return `"${text}" names a zone; networks have none: drop the % part`
  const groups = parse(written)
  if (groups === undefined || written.startsWith('[')) {
    return `"${text}" does not begin with an IP address; write a network as 192.0.2.0/24 or 2001:db8::/32`
  }
  const address = format(groups)
  const family = familyOf(address)
  // A mapped network such as ::ffff:192.0.2.0/120 counts 96 bits before those of IPv4.
  const skipped = family === 'ipv4' && written.includes(':') ? 96 : 0
  const longest = family === 'ipv4' && skipped === 0 ? 32 : 128
  const length = slash === -1 ? String(longest) : text.slice(slash + 1)
  if (!/^(0|[1-9][0-9]{0,2})$/.test(length) || Number(length) > longest) {
    return `"${text}" has no usable prefix length; after the slash stands a number from 0 to ${longest}`
  }
  const prefix = Number(length) - skipped
  if (prefix < 0) return `"${text}" is wider than the IPv4-mapped addresses; write it as plain IPv4`
  const network = format(masked(groups, Number(length) + (longest === 32 ? 96 : 0)))
  if (network !== address) {
    return `"${text}" has bits set behind its prefix; write ${network}/${prefix} for the network or ${address} for the one address`
  }
  return { address, prefix, family }
}

/** The groups of an address in any spelling, without zone and brackets; undefined when the text is no address. */
function parse(text: string): Groups | undefined {
  if (isIPv4(text)) return [0, 0, 0, 0, 0, 0xffff, ...dotted(text)]
  return parseIPv6(text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text)
}

/** The groups of an IPv6 address, RFC 4291 section 2.2, with or without a zone. */
function parseIPv6(text: string): Groups | undefined {
  if (!text.includes(':')) return undefined
  const [address = '', tail, ...more] = text.replace(/%[0-9A-Za-z.:-]+$/, '').split('::')
  if (tail === undefined) {
    const groups = groupsOf(address, true)
    return groups?.length === 8 ? groups : undefined
  }
  const before = groupsOf(address, false)
  const after = groupsOf(tail, true)
  if (before === undefined || after === undefined || more.length > 0) return undefined
  const zeros = 8 - before.length - after.length
  return zeros < 1 ? undefined : [...before, ...Array<number>(zeros).fill(0), ...after]
}

/** Groups separated by colons. At the end of an address the last two may be written as IPv4. */
function groupsOf(text: string, atEnd: boolean): Groups | undefined {
  if (text === '') return []
  const parts = text.split(':')
  const last = parts.at(-1) ?? ''
  const tail = atEnd && isIPv4(last) ? dotted(last) : []
  const hexadecimal = tail.length > 0 ? parts.slice(0, -1) : parts
  if (!hexadecimal.every(part => /^[0-9A-Fa-f]{1,4}$/.test(part))) return undefined
  return [...hexadecimal.map(part => Number.parseInt(part, 16)), ...tail]
}

function dotted(text: string): Groups {
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}

function format(groups: Groups): string {
  if (isMapped(groups)) return ipv4At(groups, 6)
  const address = groups.map(group => group.toString(16)).join(':')
  return new SocketAddress({ address, family: 'ipv6' }).address
}

function masked(groups: Groups, prefix: number): Groups {
  return groups.map((group, index) => {
    const kept = Math.min(16, Math.max(0, prefix - index * 16))
    return group & (0xffff << (16 - kept)) & 0xffff
  })
}

function familyOf(normal: string): Family {
  return normal.includes(':') ? 'ipv6' : 'ipv4'
}

function isMapped(groups: Groups): boolean {
  return zero(groups, 0, 5) && groups[5] === 0xffff
}

function zero(groups: Groups, from: number, to: number): boolean {
  return groups.slice(from, to).every(group => group === 0)
}

function ipv4At(groups: Groups, at: number): string {
  const [high = 0, low = 0] = groups.slice(at)
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}
