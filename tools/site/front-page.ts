/**
 * The first page of the site: two doors, a line to try each program, a drawing that fits a telephone, and the short answers. Knows no files; links come in through a
 * function.
 */
import { escapeHtml } from '../../lib/template.ts'
import { codeHtml } from './documents.ts'

interface Door {
  readonly title: string
  readonly says: string
  readonly tries: string
  /** Pages behind the door: the first one is behind its title. */
  readonly links: ReadonlyArray<readonly [source: string, text: string]>
}

const doors: readonly Door[] = [
  {
    title: 'A cache for APT',
    says: 'cachesvc lets every Debian and Ubuntu machine of a network get packages from one cache, even while the repository is down. It checks what it sends and says why.',
    tries: 'npm ci && bin/cachesvc',
    links: [
      ['README.md#cachesvc', 'What it does'],
      ['docs/installing.md', 'Install'],
      ['docs/configuration.md', 'Settings'],
      ['docs/recipes/ci-and-images.md', 'CI and images'],
    ],
  },
  {
    title: 'Single sign-on',
    says: 'authproxy puts SAML sign-on in front of one web application: Entra ID, Okta, Keycloak, AD FS and others. The application reads the user from a header.',
    tries: 'npm ci && bin/authproxy demo',
    links: [
      ['README.md#authproxy', 'What it does'],
      ['docs/authproxy.md', 'Set up'],
      ['docs/authproxy-configuration.md', 'Settings'],
      ['docs/forward-auth.md', 'Forward-auth'],
    ],
  },
]

/** The page. `link` leads to a file of the repository; `answers` is the HTML of docs/answers.md without its heading. */
export function frontPageHtml(link: (source: string) => string, answers: string): string {
  const cards = doors.map(({ title, says, tries, links }) => {
    const [[first] = ['']] = links
    const items = links.map(
      ([source, text]) =>
        `<li><a href="${escapeHtml(link(source))}">${escapeHtml(text)}</a></li>\n`,
    )
    return `<section class="door">
<h2><a href="${escapeHtml(link(first))}">${escapeHtml(title)}</a></h2>
<p>${escapeHtml(says)}</p>
${codeHtml(tries, 'sh')}<ul>
${items.join('')}</ul>
</section>
`
  })
  return `<h1 id="cachesvc-and-authproxy">cachesvc and authproxy</h1>
<p>Two daemons for the people who run a Debian or Ubuntu network. To keep one as a service, build its package: <a href="${escapeHtml(link('docs/installing.md'))}">Install</a>.</p>
<div class="doors">
${cards.join('')}</div>
${drawing}
${answers}`
}

const box = (x: number, y: number, text: string, ours = false) =>
  `<rect class="${ours ? 'ours' : 'theirs'}" x="${x}" y="${y}" width="92" height="34" rx="6"/><text x="${x + 46}" y="${y + 22}">${text}</text>`
const arrow = (x: number, y: number) => `<path class="arrow" d="M${x} ${y}h22m-6 -5l6 5l-6 5"/>`

/** Each program between what is before and behind it: 340 units wide, so that its letters can be read on a telephone. */
const drawing = `<svg class="drawing" viewBox="0 0 340 110" role="img" aria-label="Machines ask cachesvc, which asks the repositories. Browsers reach authproxy through a web server, and authproxy the application.">
${box(4, 8, 'machines')}${arrow(98, 25)}${box(122, 8, 'cachesvc', true)}${arrow(216, 25)}${box(240, 8, 'repositories')}
${box(4, 66, 'nginx, TLS')}${arrow(98, 83)}${box(122, 66, 'authproxy', true)}${arrow(216, 83)}${box(240, 66, 'application')}
</svg>`
