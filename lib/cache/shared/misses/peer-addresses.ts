/**
 * Decides at which addresses another node may be. The bucket has the addresses of nodes, and a writer of the bucket must not make this node
 * ask services of its own machine, or the services by which clouds give credentials to a machine. This file is pure.
 */
import { AddressSet } from '../../../ip.ts'

/** The addresses of this machine. They are allowed when the `peer_url` of this node is one of them. */
const ownMachine = ['127.0.0.0/8', '::1/128']

/** The addresses at which no node can be. Private addresses are allowed. */
const nowhere = [
  '0.0.0.0/8', // this network
  '100.100.100.200/32', // metadata of a cloud; the next network and fd00:ec2::254 have such services too
  '169.254.0.0/16', // link-local
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
  '::/128',
  'fd00:ec2::254/128',
  'fe80::/10', // link-local
  'ff00::/8', // multicast
]

/** The sets of these addresses, which are made at the first call. */
let sets: { readonly own: AddressSet; readonly nowhere: AddressSet } | undefined

/** Whether another node may have this address or this name. `own` is the host of the `peer_url` of this node. */
export function mayBeNode(host: string, own: string | undefined): boolean {
  sets ??= { own: AddressSet.fromCidrs(ownMachine), nowhere: AddressSet.fromCidrs(nowhere) }
  const here = sets.own
  const isHere = (name: string): boolean => /^(?:.*\.)?localhost\.?$/i.test(name) || here.has(name)
  if (isHere(host)) return own !== undefined && isHere(own)
  return !sets.nowhere.has(host)
}
