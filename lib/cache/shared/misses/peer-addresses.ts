/**
 * At which addresses another node may be. Their places stand in the bucket: who can write there must not be able to have this node ask services
 * of its own machine, or those by which clouds give credentials to a machine. Pure.
 */
import { AddressSet } from '../../../ip.ts'

/** Nodes of one machine find each other here when the one that asks is here itself. */
const ownMachine = ['127.0.0.0/8', '::1/128']

/** Where no node can be. Private addresses are where nodes are. */
const nowhere = [
  '0.0.0.0/8', // this network
  '100.100.100.200/32', // metadata of a cloud, as the next and fd00:ec2::254
  '169.254.0.0/16', // link-local
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
  '::/128',
  'fd00:ec2::254/128',
  'fe80::/10', // link-local
  'ff00::/8', // multicast
]

/** Made when they are first asked. */
let sets: { readonly own: AddressSet; readonly nowhere: AddressSet } | undefined

/** Whether another node may be at this address, or have this name. `own`: the host of the `peer_url` of this node. */
export function mayBeNode(host: string, own: string | undefined): boolean {
  sets ??= { own: AddressSet.fromCidrs(ownMachine), nowhere: AddressSet.fromCidrs(nowhere) }
  const here = sets.own
  const isHere = (name: string): boolean => /^(?:.*\.)?localhost\.?$/i.test(name) || here.has(name)
  if (isHere(host)) return own !== undefined && isHere(own)
  return !sets.nowhere.has(host)
}
