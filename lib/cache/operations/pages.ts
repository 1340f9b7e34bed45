/**
 * Renders the HTML pages: which template is filled with which view. Each view has a file of its own.
 */

import { redactUrl } from '../../log/redact.ts'
import { projectPage } from '../../package.ts'
import type { Templates, View } from '../../template.ts'
import { cacheView } from './cache-view.ts'
import { type Endpoint, endpoint } from './endpoint.ts'
import { setupScript } from './examples/setup-script.ts'
import { countOf } from './figures.ts'
import { indexView } from './index-view.ts'
import { setupView } from './setup-view.ts'
import type { OperationsSources } from './sources.ts'
import { statsView } from './stats-view.ts'

/** The longest URL `explain` takes. */
const longestUrl = 2048

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
    const { usage, config, verification, suites, clock } = this.#sources
    const view = cacheView({
      config,
      usage: await usage(),
      verification: verification(),
      suites: suites(),
      now: clock.now(),
    })
    return this.#page('cache', 'Cache', { ...view, ...(await this.#state()) })
  }

  stats(): string {
    return this.#page('stats', 'Statistics', statsView(this.#sources.statistics()))
  }

  setup(): string {
    return this.#page('setup', 'Setup', setupView(this.#sources, this.#endpoint()))
  }

  /** For a client's shell. */
  setupScript(): string {
    return setupScript({ here: this.#endpoint() })
  }

  /** The form, and what is known of the URL in the query's `url`, if it has one. */
  async explain(query: string | undefined): Promise<string> {
    const url = new URLSearchParams(query ?? '').get('url')?.trim() ?? ''
    const tooLong = url.length > longestUrl
    const asked = url !== '' && !tooLong
    const explanation = asked ? await this.#sources.explain(url) : []
    const shown = tooLong ? '' : redactUrl(url)
    return this.#page('explain', 'Explain', { url: shown, tooLong, longestUrl, asked, explanation })
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
    const { warnings, https, verification } = this.#sources
    const health = await this.#sources.health()
    const wrong = verification().last?.wrong ?? 0
    const cautions = [
      ...warnings(),
      ...(https()?.expiresSoon === true ? ['the CA certificate expires soon'] : []),
      ...(wrong > 0 ? [`the last verification removed ${countOf(wrong, 'wrong file')}`] : []),
    ]
    const ready = health.writable
    return {
      ready: ready && cautions.length === 0,
      doubtful: ready && cautions.length > 0,
      broken: !ready,
      because: ready ? '' : health.because,
      cautions,
    }
  }

  #endpoint(): Endpoint {
    const { config, addresses, listeners } = this.#sources
    return endpoint(config, addresses(), listeners())
  }
}
