/**
 * The pictures of the running programs, and the page that shows them. `screenshots.ts` takes them.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { escapeHtml } from '../../lib/template.ts'

/** A page of a program that has its picture taken. */
export interface Subject {
  readonly name: string
  readonly program: 'cachesvc' | 'authproxy'
  readonly title: string
  /** What the picture shows, for those who do not see it. */
  readonly says: string
}

export const subjects = [
  {
    name: 'cachesvc-overview',
    program: 'cachesvc',
    title: 'The overview',
    says: 'The overview of cachesvc at /_cachesvc/: how many requests were hits, what the requests were, which archives were asked.',
  },
  {
    name: 'cachesvc-explain',
    program: 'cachesvc',
    title: 'Why an answer is given',
    says: 'The page Explain of cachesvc: what it would do with a URL, step by step.',
  },
  {
    name: 'cachesvc-setup',
    program: 'cachesvc',
    title: 'How a machine uses it',
    says: 'The page Setup of cachesvc: the commands that make a machine use it.',
  },
  {
    name: 'authproxy-sign-in',
    program: 'authproxy',
    title: 'Signing in at the identity provider for tests',
    says: 'The sign-in page of authproxy dev-idp, with the people one can sign in as and the answers it can give.',
  },
  {
    name: 'authproxy-application',
    program: 'authproxy',
    title: 'The application behind authproxy',
    says: 'The sample application of authproxy demo: the user, the groups and the fields that it was sent.',
  },
  {
    name: 'authproxy-forbidden',
    program: 'authproxy',
    title: 'A page that a person may not open',
    says: 'The page of authproxy for a person whom the access rules refuse, with the reference for the help desk.',
  },
  {
    name: 'authproxy-error',
    program: 'authproxy',
    title: 'A login that fails',
    says: 'The page of authproxy for a login that failed, which says what happened and what to do.',
  },
] as const satisfies readonly Subject[]

export type SubjectName = (typeof subjects)[number]['name']

export const schemes = ['light', 'dark'] as const
export const widths = [1200, 390] as const

export type Scheme = (typeof schemes)[number]

/** The file of a picture. */
export function pictureFile(name: SubjectName, scheme: Scheme, width: number): string {
  return `${name}-${scheme}-${width}.webp`
}

/** The page of all pictures. Each link leads to the picture itself. */
export function picturesHtml(directory: string): string {
  const introduction =
    '<p>A script has taken these pictures of the running programs, when this site was made. Each is there in light and dark, for a wide window and for a telephone: the top of each page, and the whole behind the picture.</p>'
  const parts = subjects.map(subject => subjectHtml(subject, directory))
  return `<h1>Pictures</h1>\n${introduction}\n${parts.join('\n')}`
}

function subjectHtml(
  { name, program, title, says }: (typeof subjects)[number],
  directory: string,
): string {
  const heading = `<h2 id="${name}">${program}: ${escapeHtml(title.charAt(0).toLowerCase() + title.slice(1))}</h2>`
  const there = schemes.every(scheme =>
    widths.every(width => existsSync(join(directory, pictureFile(name, scheme, width)))),
  )
  if (!there)
    return `${heading}\n<p>${escapeHtml(says)} The picture was not taken: there was no Chromium.</p>`
  const figures = widths.flatMap(width =>
    schemes.map(scheme => {
      const file = `pictures/${pictureFile(name, scheme, width)}`
      const alt = scheme === 'light' ? says : `The same page, dark.`
      const kind = width > 600 ? 'wide' : 'narrow'
      return `<a class="${kind}" href="${file}"><img src="${file}" alt="${escapeHtml(alt)}" loading="lazy"></a>`
    }),
  )
  return `${heading}\n<div class="pictures">\n${figures.join('\n')}\n</div>`
}
