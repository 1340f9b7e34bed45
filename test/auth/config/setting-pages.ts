import t from 'tap'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'

const least = {
  domain: 'app.example.org',
  idpMetadataURL: 'https://idp.example.org/metadata',
  proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
}

t.test('what the pages show is checked', t => {
  for (const [pages, problem] of [
    [{ colour: '#0B57A4' }, undefined],
    [{ colour: 'red' }, /found "red", expected a colour such as "#0b57a4"/],
    [{ colour: '#fff}body{display:none' }, /expected a colour/],
    [{ colour: '#ffee00' }, /contrast of 1\.2 to the light ground .* take a darker colour/],
    [{ colourDark: '#0b57a4' }, /to the dark ground .* take a lighter colour/],
    [{ colour: '#767676' }, undefined],
    [{ colour: '#777777' }, /contrast of 4\.5/],
    [{ logo: '/etc/authproxy/logo.SVG' }, undefined],
    [{ logo: 'logo.svg' }, /expected an absolute path/],
    [{ logo: '/etc/authproxy/logo.html' }, /expected a file that ends with \.svg, \.png/],
    [{ logo: '/etc/authproxy/svg' }, /expected a file that ends with/],
    [{ contact: 'https://help.example.org/' }, undefined],
    [{ contact: 'two\nlines' }, /expected a mail address/],
    [{ contact: ' ' }, /expected a mail address/],
    [{ contact: 'x'.repeat(201) }, /at most 200 characters/],
  ] as const) {
    const checked = configCheck('app')({ ...least, pages })
    const name = JSON.stringify(pages).slice(0, 60)
    if (problem === undefined) t.ok(checked.ok, name)
    else t.match(checked.ok ? [] : checked.problems.map(({ text }) => text), [problem], name)
  }
  t.end()
})
