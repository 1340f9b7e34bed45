/**
 * Settings of the pages a person sees when a login or a request fails.
 */
import { mismatch, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { readPath } from '../../config/setting-kinds.ts'
import { group, type Kind, kind, optionalSetting, setting } from '../../config/settings.ts'

/** A place to ask for help: any single line, such as a URL, a mail address or a telephone number. */
const contact = lineOfText(
  'a mail address, an https URL, or a line of text of at most 200 characters',
)

function lineOfText(what: string): Kind<string> {
  return kind({ name: 'text', json: { type: 'string' } }, found => {
    const fits = typeof found === 'string' && /^[^\p{Cc}\p{Zl}\p{Zp}]{1,200}$/u.test(found)
    return fits && found.trim() !== '' ? readResult(found) : mismatch(found, what)
  })
}

/** Media types of logos by the end of the file name. */
export const logoTypes: Readonly<Record<string, string>> = {
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
}

const logo: Kind<string> = kind({ name: 'path', json: { type: 'string' } }, found => {
  const read = readPath(found)
  if (!read.ok) return read
  const type = /\.([^./]+)$/.exec(read.value)?.[1]?.toLowerCase() ?? ''
  const ends = Object.keys(logoTypes).map(end => `.${end}`)
  return ends.includes(`.${type}`)
    ? read
    : mismatch(found, `a file that ends with ${ends.join(', ')}`)
})

/**
 * The background colours of the pages, light and dark (templates/auth/head.mustache). The chosen colour is used for text on
 * them, and they are used for text on the chosen colour.
 */
const grounds = { light: '#ffffff', dark: '#20242a' } as const

/** A colour with enough contrast to the background of the pages: WCAG 2.2, section 1.4.3. */
function colourOn(ground: keyof typeof grounds): Kind<string> {
  const json = { type: 'string', pattern: '^#[0-9A-Fa-f]{6}$' }
  return kind({ name: 'colour', json }, (found): ReadResult<string> => {
    if (typeof found !== 'string' || !/^#[0-9a-f]{6}$/i.test(found)) {
      return mismatch(found, 'a colour such as "#0b57a4"', 'put it between quotes')
    }
    const reached = contrast(found, grounds[ground])
    if (reached >= 4.5) return readResult(found)
    const mend = ground === 'light' ? 'darker' : 'lighter'
    return readFailure(
      `${found} has a contrast of ${reached.toFixed(1)} to the ${ground} ground of the pages, and text needs 4.5; take a ${mend} colour`,
    )
  })
}

/** Contrast of two colours, from 1 to 21. */
function contrast(a: string, b: string): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x)
  return (light + 0.05) / (dark + 0.05)
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(at => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

export const pages = group(
  'The pages a person sees when a login or a request fails. They are in English, German, Danish or French, as the browser asks.',
  {
    contact: optionalSetting(
      contact,
      'none is shown',
      'pages:\n  contact: helpdesk@example.org',
    ).says(
      'Contact of the people who help: a mail address, an `https://` URL, or any line of text such as a telephone number.',
    ),
    application: optionalSetting(
      lineOfText('a line of text of at most 200 characters'),
      'the domain',
      'pages:\n  application: Time sheets',
    ).says('Name of the application, above each page: at most 200 characters.'),
    logo: optionalSetting(logo, 'none', 'pages:\n  logo: /etc/authproxy/logo.svg').says(
      'Logo above each page: a file of at most 256 KiB that ends with `.svg`, `.png`, `.jpg`, `.jpeg` or `.webp`. It is read at start and on reload, and answered at `/__authproxy/logo`, without a login; the backend no longer gets requests for that path.',
    ),
    colour: setting(colourOn('light'), '#0b57a4').says(
      'Colour of links and buttons on a light background, as `"#rrggbb"` between quotes. A colour in which text is hard to read is refused.',
    ),
    colourDark: setting(colourOn('dark'), '#8ac0ff').says(
      'Colour of links and buttons for people who prefer dark pages.',
    ),
  },
)
