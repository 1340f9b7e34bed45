import t from 'tap'
import { otherSockets, socketUnit } from '../../lib/cache/listening.ts'

const any = { address: undefined, port: 3142 }
const one = { address: '192.0.2.1', port: 3142 }
const six = { address: '2001:db8::1', port: 80 }

t.test('the addresses of the configuration are those of the socket unit', async t => {
  t.equal(
    socketUnit({ listen: [any] }),
    '[Socket]\nListenStream=\nListenStream=3142\nFreeBind=yes\n',
  )
  t.equal(
    socketUnit({ listen: [one, six] }),
    '[Socket]\nListenStream=\nListenStream=192.0.2.1:3142\nListenStream=[2001:db8::1]:80\nFreeBind=yes\n',
  )
})

t.test('sockets of systemd that are not where the configuration says are told', async t => {
  const sockets = [{ fd: 3, name: 'http' }]
  const at = (...places: readonly (typeof any | typeof one)[]) =>
    places.map(place => ({ ...place, secure: false }))
  t.equal(otherSockets({ listen: [any] }, sockets, at(any)), undefined)
  t.equal(otherSockets({ listen: [one, six] }, sockets, at(six, one)), undefined, 'in any order')
  t.equal(otherSockets({ listen: [one] }, [], at(any)), undefined, 'no socket of systemd')
  t.equal(
    otherSockets({ listen: [{ address: '0.0.0.0', port: 3142 }] }, sockets, at(any)),
    undefined,
  )
  t.match(
    otherSockets({ listen: [one] }, sockets, at(any)),
    /listens on \*:3142, and the configuration says 192\.0\.2\.1:3142: run `systemctl daemon-reload/,
  )
  const secure = [...at(any), { address: undefined, port: 3143, secure: true }]
  t.equal(otherSockets({ listen: [any] }, sockets, secure), undefined, 'TLS is apart')
})
