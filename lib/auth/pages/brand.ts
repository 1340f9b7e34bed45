/**
 * The parts of the pages that belong to the organisation: the contact for help, the logo, the colours.
 */

import { explainError, Failure } from '../../errors.ts'
import { readBounded } from '../../files/bounded-file.ts'
import type { Config } from '../config/config.ts'
import { logoTypes } from '../config/setting-pages.ts'
import { logoPath, type OwnDocument } from './own-document.ts'

export interface Brand {
  readonly templateValues: {
    readonly application: string
    readonly logo: boolean
    readonly logoPath: string
    readonly colour: string
    readonly colourDark: string
    readonly contact: false | { readonly text: string; readonly href: string | false }
  }
  readonly logo: OwnDocument | undefined
}

const LARGEST_LOGO = 256 * 1024

/** Reads the logo. Throws a Failure when it cannot be read. */
export async function readBrand({
  pages,
  domain,
}: Pick<Config, 'pages' | 'domain'>): Promise<Brand> {
  const { logo, colour, colourDark, application = domain } = pages
  const text = pages.contact
  const contact = text !== undefined && { text, href: hrefOf(text) }
  return {
    templateValues: {
      application,
      logo: logo !== undefined,
      logoPath,
      colour,
      colourDark,
      contact,
    },
    logo: logo === undefined ? undefined : await readLogo(logo),
  }
}

async function readLogo(path: string): Promise<OwnDocument> {
  const type = logoTypes[/[^.]*$/.exec(path)?.[0].toLowerCase() ?? ''] ?? ''
  try {
    const { bytes } = await readBounded(path, LARGEST_LOGO)
    return { type, bytes, policy: "default-src 'none'; style-src 'unsafe-inline'; sandbox" }
  } catch (cause) {
    throw new Failure(`cannot read pages.logo: ${explainError(cause)}`, { code: 'LOGO', cause })
  }
}

function hrefOf(contact: string): string | false {
  if (/^https:\/\/\S+$/.test(contact)) return contact
  return /^[^\s@:/?]+@[^\s@:/?]+$/.test(contact) ? `mailto:${contact}` : false
}
