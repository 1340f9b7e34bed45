/**
 * The addresses of a service in a socket unit of systemd, systemd.socket(5), and whether the sockets that it hands over are the
 * configured ones.
 */
import { formatAuthority } from './http/message/target.ts'
import type { ListenAddress } from './http/server/listen.ts'

/** The addresses as a drop-in of a socket unit. It takes the place of the addresses the unit has. */
export function socketUnit(listen: readonly ListenAddress[]): string {
  const places = listen.map(({ address, port }) =>
    address === undefined ? `${port}` : formatAuthority({ host: address, port }),
  )
  // The unit starts before the network is up, when an address of this machine may not be there yet.
  const lines = ['ListenStream=', ...places.map(place => `ListenStream=${place}`), 'FreeBind=yes']
  return `[Socket]\n${lines.join('\n')}\n`
}

/** What to do where systemd listens elsewhere than the configuration says; undefined where they agree. `unit` has no suffix. */
export function otherSockets(
  given: readonly ListenAddress[],
  wanted: readonly ListenAddress[],
  unit: string,
): string | undefined {
  const [here, there] = [placesText(given), placesText(wanted)]
  if (here === there) return undefined
  return `systemd listens on ${here}, and the configuration says ${there}: run \`systemctl daemon-reload && systemctl restart ${unit}.socket ${unit}.service\``
}

function placesText(places: readonly ListenAddress[]): string {
  return places
    .map(({ address = '*', port }) =>
      formatAuthority({ host: anyAddress(address) ? '*' : address, port }),
    )
    .sort()
    .join(', ')
}

/** Whether an address stands for all of the machine. */
export function anyAddress(address: string): boolean {
  return address === '::' || address === '0.0.0.0'
}
