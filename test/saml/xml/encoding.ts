import t from 'tap'
import { decodeBase64, decodeFormText } from '../../../lib/saml/xml/encoding.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

/** The rules by the texts of the standards, without regard to what a long text costs. */
function plainFormText(text: string): string | undefined {
  if (/[^\x20-\x7e]/.test(text)) return undefined
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

function plainBase64(text: string): string | undefined {
  const joined = text.replace(/[\r\n\t ]+/g, '')
  if (joined === '') return undefined
  const bytes = Buffer.from(joined, 'base64')
  return bytes.toString('base64') === joined ? bytes.toString('hex') : undefined
}

t.test('text of a form is decoded as decodeURIComponent decodes it', t => {
  const chance = seeded(36)
  const escapes = ['%C3%A9', '%e2%82%ac', '%F0%9F%98%80', '%ED%A0%80', '%C0%AF', '%EF%BB%BF', '%4']
  const pieces = [...'aZ+%09fF=', '%41', '%2b', '%2B', '%ff', '%C3', '%0', '%g0', '%0g', ...escapes]
  let decoded = 0
  for (let i = 0; i < 20_000; i += 1) {
    const text = chance.text(i % 4 === 0 ? [...pieces, ...hostilePieces] : pieces, 8)
    const expected = plainFormText(text)
    if (expected !== undefined) decoded += 1
    if (decodeFormText(text) !== expected) t.fail(JSON.stringify(text))
  }
  t.ok(decoded > 2000, `${decoded} texts have a meaning`)
  for (let byte = 0; byte < 256; byte += 1) {
    const text = `%${String.fromCharCode(byte)}0%0${String.fromCharCode(byte)}`
    if (decodeFormText(text) !== plainFormText(text)) t.fail(text)
  }
  t.end()
})

t.test('base64 is read with line breaks, and otherwise strictly', t => {
  const chance = seeded(37)
  const pieces = ['QUJD', 'QQ==', 'QUI=', '\r\n', '\n', '\t', ' ', '+', '/', 'A', '=', '-', '\x0b']
  // Its lower byte is that of `A`.
  const wide = '\u0141'
  let decoded = 0
  for (let i = 0; i < 20_000; i += 1) {
    const text = chance.text(i % 4 === 0 ? [...pieces, wide, ...hostilePieces] : pieces, 6)
    const expected = plainBase64(text)
    if (expected !== undefined) decoded += 1
    if (decodeBase64(text)?.toString('hex') !== expected) t.fail(JSON.stringify(text))
  }
  t.ok(decoded > 1000, `${decoded} texts have a meaning`)
  t.end()
})
