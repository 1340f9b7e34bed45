/**
 * Decodes base64 and percent-encoding in forms and queries, strictly. Node's own base64 decoder skips what it does not know, so two
 * texts could mean one message.
 */

/** The bytes of base64 (RFC 4648 section 4); undefined when the text is empty, has other characters, or wrong padding. */
export function decodeBase64(text: string): Buffer | undefined {
  // Some IdPs break lines; some browsers then deliver CR LF.
  const joined = text.replace(/[\r\n\t ]+/g, '')
  if (joined === '') return undefined
  const bytes = Buffer.from(joined, 'base64')
  // Whatever the decoder passed over is missing here: characters of no alphabet or another, padding, and, by section 3.5, bits behind
  // the last byte that are not zero.
  return bytes.toString('base64') === joined ? bytes : undefined
}

/**
 * A name or value of application/x-www-form-urlencoded (URL Standard section 5); undefined when an escape is broken or does not
 * make UTF-8, or when a character should have been escaped.
 */
export function decodeFormText(text: string): string | undefined {
  if (/[^\x20-\x7e]/.test(text)) return undefined
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}
