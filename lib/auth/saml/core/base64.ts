/**
 * Base64, RFC 4648 section 4, as browsers deliver it in forms: line breaks allowed, everything else strict. Node's own decoder
 * skips what it does not know, so two texts could mean one message.
 */

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** The bytes; undefined when the text is empty, has a character of another alphabet, or wrong padding. */
export function decodeBase64(text: string): Buffer | undefined {
  // Some IdPs break lines; some browsers then deliver CR LF.
  const joined = /[\r\n\t ]/.test(text) ? text.replace(/[\r\n\t ]+/g, '') : text
  if (joined === '' || !BASE64.test(joined)) return undefined
  const bytes = Buffer.from(joined, 'base64')
  // Section 3.5: bits behind the last byte are zero, or there would be several spellings.
  return bytes.toString('base64') === joined ? bytes : undefined
}
