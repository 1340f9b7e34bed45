import { readFileSync } from 'node:fs'
import t from 'tap'
import { cachesvcManual } from '../../../lib/cache/config/manual.ts'
import { settings } from '../../../lib/cache/config/settings.ts'
import { manualFiles } from '../../../lib/config/manual.ts'
import { keyPath } from '../../../lib/config/reading.ts'
import { manualPages } from '../../../lib/config/settings.ts'

t.test('the manuals are up to date: npm run manual', t => {
  for (const [path, content] of manualFiles(cachesvcManual))
    t.equal(readFileSync(path, 'utf8'), content, path)
  t.end()
})

t.test('every setting has a sentence in the manual', t => {
  for (const page of manualPages(settings)) {
    const text = 'group' in page ? page.group : page.setting.manual.join(' ')
    t.match(text, /^.+\.$/s, keyPath(page.path))
  }
  t.end()
})

t.test('the JSON Schema knows types, bounds and unknown keys', t => {
  const schema = JSON.parse(manualFiles(cachesvcManual).get('packaging/cachesvc.schema.json') ?? '')
  t.equal(schema.additionalProperties, false)
  t.match(schema.properties.listen_port, {
    type: 'integer',
    minimum: 1,
    maximum: 65_535,
    description: /Port/,
  })
  t.match(schema.properties.domains, { type: 'array', items: { type: 'string' } })
  t.match(schema.properties.timeouts.properties.connect, {
    type: ['string', 'integer'],
    default: '8s',
  })
  t.match(schema.properties.log.properties.level, { enum: ['debug', 'info', 'warn', 'error'] })
  t.end()
})
