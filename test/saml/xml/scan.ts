import t from 'tap'
import { messageLimits, metadataLimits } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

function scan(text: string | Buffer, limits = messageLimits) {
  const scanned = parseXml(Buffer.from(text), limits)
  return scanned.ok ? 'ok' : scanned.because
}

t.test('what is plain elements, attributes and text passes', async t => {
  const good = [
    '<a/>',
    '<?xml version="1.0"?><a/>',
    `<?xml version='1.0' encoding='utf-8' standalone="no" ?>\n<a></a>\n`,
    '<a b="1" c=\'2\'><b>&lt;&amp;&#13;&#xD;&#x1F600;</b></a >',
    '<p:a xmlns:p="urn:x" p:b = "&quot;>"/>',
    '<a\n b="x>y"\t/>',
    '<a>é😀</a>',
  ]
  for (const text of good) t.equal(scan(text), 'ok', text)
})

t.test('4, 5, 6, 13, 14, 15: everything else has its reason', async t => {
  const bad: ReadonlyArray<readonly [string | Buffer, string]> = [
    ['', 'not-well-formed'],
    ['x', 'not-well-formed'],
    ['<a>', 'not-well-formed'],
    ['</a>', 'not-well-formed'],
    ['<a></b>', 'not-well-formed'],
    ['<a><b></a></b>', 'not-well-formed'],
    ['<a/><b/>', 'not-well-formed'],
    ['<a/>x', 'not-well-formed'],
    ['<a/>&#32;', 'not-well-formed'],
    ['<a b/>', 'not-well-formed'],
    ['<a b=c/>', 'not-well-formed'],
    ['<a b="1"c="2"/>', 'not-well-formed'],
    ['<a b="<"/>', 'not-well-formed'],
    ['<a b="1/>', 'not-well-formed'],
    ['<1/>', 'not-well-formed'],
    ['<a:b:c/>', 'not-well-formed'],
    ['< a/>', 'not-well-formed'],
    ['<a>]]></a>', 'not-well-formed'],
    ['<a xmlnsb="1"/>', 'parser'],
    ['<a xmlns-b="1"/>', 'parser'],
    ['<xmlnsb/>', 'parser'],
    ['<a xmlns:xmlnsb="urn:b" xmlnsb:c="1"/>', 'parser'],
    ['\ufeff<a/>', 'ok'],
    ['\ufeff\ufeff<a/>', 'not-well-formed'],
    [' \ufeff<a/>', 'not-well-formed'],
    ['<!DOCTYPE a><a/>', 'doctype'],
    ['<!ENTITY a ""><a/>', 'doctype'],
    ['<a><!-- x --></a>', 'comment'],
    ['<a/><!-- x -->', 'comment'],
    ['<a><![CDATA[x]]></a>', 'cdata'],
    ['<a><?p?></a>', 'processing-instruction'],
    [' <?xml version="1.0"?><a/>', 'processing-instruction'],
    ['<?xml-stylesheet href="x"?><a/>', 'processing-instruction'],
    ['<?xml version="1.1"?><a/>', 'declaration'],
    ['<?xml version="1.0" encoding="latin1"?><a/>', 'declaration'],
    ['<?xml encoding="utf-8"?><a/>', 'declaration'],
    ['<a>&nbsp;</a>', 'entity'],
    ['<a>&</a>', 'entity'],
    ['<a b="&x;"/>', 'entity'],
    ['<a>&#0;</a>', 'character'],
    ['<a>&#x1;</a>', 'character'],
    ['<a>&#xD800;</a>', 'character'],
    ['<a>&#x110000;</a>', 'character'],
    ['<a>\u0000</a>', 'character'],
    ['<a>\u000b</a>', 'character'],
    ['<a>\uffff</a>', 'character'],
    [Buffer.from('3c612fff3e', 'hex'), 'not-utf8'],
    [Buffer.from('3c613ec0af3c2f613e', 'hex'), 'not-utf8'],
    [Buffer.from('3c613eeda0803c2f613e', 'hex'), 'not-utf8'],
    [Buffer.from('<a/>', 'utf16le'), 'character'],
    ['<a b="" b=""/>', 'duplicate-attribute'],
  ]
  for (const [text, because] of bad) t.equal(scan(text), because, JSON.stringify(text.toString()))
})

t.test('20, 21: limits hold to the number', async t => {
  const deep = (n: number) => `${'<a>'.repeat(n)}${'</a>'.repeat(n)}`
  t.equal(scan(deep(64)), 'ok')
  t.equal(scan(deep(65)), 'too-deep')
  const wide = (n: number) => `<a>${'<b/>'.repeat(n - 1)}</a>`
  t.equal(scan(wide(messageLimits.elements)), 'ok')
  t.equal(scan(wide(messageLimits.elements + 1)), 'too-many-elements')
  const attributes = (n: number) =>
    `<a ${Array.from({ length: n }, (_, i) => `a${i}=""`).join(' ')}/>`
  t.equal(scan(attributes(32)), 'ok')
  t.equal(scan(attributes(33)), 'too-many-attributes')
  const all = (n: number) => `<a>${'<b c="" d="" e="" f=""/>'.repeat(n / 4)}</a>`
  t.equal(scan(all(6000)), 'ok')
  t.equal(scan(all(6000), { ...messageLimits, allAttributes: 5999 }), 'too-many-attributes')
  const declared = (...counts: readonly number[]) =>
    counts.reduceRight((inner, count, depth) => {
      const names = Array.from({ length: count }, (_, i) => ` xmlns:p${depth}_${i}="u"`).join('')
      return `<a${names}>${inner}</a>`
    }, '')
  t.equal(scan(declared(30, 30, 4)), 'ok')
  t.equal(scan(declared(30, 30, 5)), 'too-many-attributes')
  t.equal(scan(`<a>${declared(30).repeat(60)}</a>`), 'ok', 'beside each other')
  const references = (n: number) => `<a b="${'&#13;'.repeat(n - 1)}">&lt;</a>`
  t.equal(scan(references(messageLimits.references)), 'ok')
  t.equal(scan(references(messageLimits.references + 1)), 'too-many-references')
  const large = (n: number) => `<a>${' '.repeat(n - 7)}</a>`
  t.equal(scan(large(messageLimits.size)), 'ok')
  t.equal(scan(large(messageLimits.size + 1)), 'too-large')
})

t.test('metadata may have comments and a byte order mark, and nothing else', async t => {
  t.equal(scan('\ufeff<!-- a --><a><!-- - --></a><!---->', metadataLimits), 'ok')
  t.equal(scan('<a><!-- -- --></a>', metadataLimits), 'not-well-formed')
  t.equal(scan('<a><!-- </a>', metadataLimits), 'not-well-formed')
  t.equal(scan('<!DOCTYPE a><a/>', metadataLimits), 'doctype')
})

t.test('line ends become line feeds, and elements say where they stand', async t => {
  const scanned = parseXml(Buffer.from('<a>\r\n<b x="1\t&#10;"/>\r&lt;</a>'), messageLimits)
  t.match(scanned, {
    ok: true,
    text: '<a>\n<b x="1\t&#10;"/>\n&lt;</a>',
    root: {
      ...{ tag: 'a', start: 0, inside: 3, end: 29, attributes: [] },
      content: [
        '\n',
        {
          tag: 'b',
          start: 4,
          inside: 20,
          end: 20,
          attributes: [{ name: 'x', value: '1 \n' }],
          content: [],
        },
        '\n<',
      ],
    },
  })
})

t.test('the worst that may be sent is scanned in linear time', async t => {
  const worst = [
    `<a ${'b="c" '.repeat(40_000)}`,
    `<a>${'&amp;'.repeat(50_000)}</a>`,
    '<'.repeat(262_144),
    `<a${' '.repeat(262_000)}`,
    `<a>${']'.repeat(262_000)}</a>`,
    '<a>'.repeat(80_000),
  ]
  for (const text of worst) {
    const time = await cpuTimeOf(() => scan(text))
    t.ok(time < 2000, `${text.slice(0, 12)}… in ${Math.round(time)} ms`)
  }
})
