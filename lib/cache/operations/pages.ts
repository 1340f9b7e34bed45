/**
 * Renders the HTML pages: which template is filled with which view. Each view has a file of its own.
 */

import { redactUrl } from '../../log/redact.ts'
import { projectPage } from '../../package.ts'
import type { Templates, View } from '../../template.ts'
import { type Endpoint, endpoint, serviceState } from './endpoint.ts'
import { setupScript } from './examples/setup-script.ts'
import type { OperationsSources } from './sources.ts'
import { cacheView } from './views/cache-view.ts'
import { indexView } from './views/index-view.ts'
import { setupView } from './views/setup-view.ts'
import { statsView } from './views/stats-view.ts'

/** The longest URL `explain` takes. */
const longestUrl = 2048

/** URLs of the kinds that the Explain page understands: an index, a package, an archive behind TLS. */
const explained = [
  'http://archive.example.org/debian/dists/stable/InRelease',
  'http://archive.example.org/debian/pool/main/h/hello/hello_2.10-3_amd64.deb',
  'https://packages.example.com/debian/dists/stable/InRelease',
].map(text => ({ text, href: `/_cachesvc/explain?${new URLSearchParams({ url: text })}` }))

const menu = [
  ['/_cachesvc/', 'Overview'],
  ['/_cachesvc/cache', 'Cache'],
  ['/_cachesvc/stats', 'Statistics'],
  ['/_cachesvc/setup', 'Setup'],
  ['/_cachesvc/explain', 'Explain'],
] as const

export class Pages {
  readonly #sources: OperationsSources
  readonly #templates: Templates
  readonly #project = projectPage()

  constructor(sources: OperationsSources, templates: Templates) {
    this.#sources = sources
    this.#templates = templates
  }

  async index(): Promise<string> {
    const view = indexView(this.#sources, this.#endpoint())
    return this.#page('index', 'Overview', { ...view, ...(await this.#state()) })
  }

  async cache(): Promise<string> {
    const { usage, config, holdings, activity, verification, suites, clock } = this.#sources
    const view = cacheView({
      config,
      usage: await usage(),
      holdings: await holdings(),
      archives: activity().archives,
      verification: verification(),
      suites: suites(),
      now: clock.now(),
    })
    return this.#page('cache', 'Cache', { ...view, ...(await this.#state()) })
  }

  stats(): string {
    const { statistics, history } = this.#sources
    return this.#page('stats', 'Statistics', statsView(statistics(), history()))
  }

  setup(): string {
    return this.#page('setup', 'Setup', setupView(this.#sources, this.#endpoint()))
  }

  setupScript(): string {
    return setupScript({ here: this.#endpoint() })
  }

  /** The form, and what is known of the URL in the query's `url`, if it has one. */
  async explain(query: string | undefined): Promise<string> {
    const url = new URLSearchParams(query ?? '').get('url')?.trim() ?? ''
    const tooLong = url.length > longestUrl
    const asked = url !== '' && !tooLong
    const [verdict = false, ...reasons] = asked ? await this.#sources.explain(url) : []
    const shown = tooLong ? '' : redactUrl(url)
    const view = { url: shown, tooLong, longestUrl, asked, verdict, reasons }
    return this.#page('explain', 'Explain', { ...view, examples: asked ? [] : explained })
  }

  notFound(): string {
    return this.#page('not-found', 'Page not found', {})
  }

  #page(template: string, title: string, view: View): string {
    return this.#templates.render(template, {
      title,
      version: this.#sources.version,
      project: this.#project,
      menu: menu.map(([href, label]) => ({ href, label, current: label === title })),
      ...view,
    })
  }

  /** For the template `state`: not ready, ready with something to look after, or well. */
  async #state(): Promise<View> {
    const { is, because, cautions } = await serviceState(this.#sources)
    return {
      ready: is === 'ready',
      doubtful: is === 'doubtful',
      broken: is === 'broken',
      because,
      cautions,
    }
  }

  #endpoint(): Endpoint {
    const { config, addresses, listeners } = this.#sources
    return endpoint(config, addresses(), listeners())
  }
}
