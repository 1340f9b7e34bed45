import t from 'tap'
import { otherSockets, socketUnit } from '../lib/http/server/listen.ts'

const any = { address: undefined, port: 3142 }
const one = { address: '192.0.2.1', port: 3142 }
const six = { address: '2001:db8::1', port: 80 }

t.test('the addresses of the configuration are those of the socket unit', async t => {
  t.equal(socketUnit([any]), '[Socket]\nListenStream=\nListenStream=3142\nFreeBind=yes\n')
  t.equal(
    socketUnit([one, six]),
    '[Socket]\nListenStream=\nListenStream=192.0.2.1:3142\nListenStream=[2001:db8::1]:80\nFreeBind=yes\n',
  )
})

t.test('sockets of systemd that are not where the configuration says are told', async t => {
  t.equal(otherSockets([any], [any], 'x'), undefined)
  t.equal(otherSockets([six, one], [one, six], 'x'), undefined, 'in any order')
  t.equal(otherSockets([any], [{ address: '0.0.0.0', port: 3142 }], 'x'), undefined)
  t.match(
    otherSockets([any], [one], 'authproxy@app'),
    'listens on *:3142, and the configuration says 192.0.2.1:3142: run `systemctl daemon-reload && systemctl restart authproxy@app.socket authproxy@app.service`',
  )
})
