/**
 * Which parent proxies of `parent_proxy` a host is asked by way of. Pure: which of them answer now is known to the origin client.
 */
import { type Authority, formatAuthority } from '../../http/message/target.ts'
import type { ParentProxies, ParentProxy } from '../config/setting-kinds.ts'
import { closestPattern, type HostList, hostList } from './hosts.ts'

/** A parent with its hosts, ready for look-ups. */
export interface CompiledParent {
  readonly proxy: ParentProxy
  /** Undefined for all hosts. */
  readonly only: HostList | undefined
  readonly except: HostList
}

/** `parent_proxy`, ready for look-ups. */
export interface CompiledParents {
  readonly parents: readonly CompiledParent[]
  readonly direct: boolean
}

export function compileParents({ parents, direct }: ParentProxies): CompiledParents {
  const compiled = parents.map(proxy => {
    const { only, except } = proxy
    return {
      proxy,
      only: only.length === 0 ? undefined : hostList(only),
      except: hostList(except),
    }
  })
  return { parents: compiled, direct }
}

/** Whether a host is asked by way of this parent. */
export function asks({ only, except }: CompiledParent, authority: Authority): boolean {
  if (closestPattern(except, authority) !== undefined) return false
  return only === undefined || closestPattern(only, authority) !== undefined
}

/** Host and port of each parent proxy by which an authority is asked, in their order; none when it is asked directly. */
export function parentsOf(
  authority: Authority,
  compiled: CompiledParents | undefined,
): readonly string[] {
  return (compiled?.parents ?? [])
    .filter(parent => asks(parent, authority))
    .map(({ proxy }) => formatAuthority(proxy))
}
