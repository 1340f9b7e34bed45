/**
 * The HTML pages: which template is filled with which view. Each view has a file of its own.
 */

import { redactUrl } from '../../log/redact.ts'
import { projectPage } from '../../package.ts'
import type { Templates, View } from '../../template.ts'
import { cacheView } from './cache-view.ts'
import { endpoint } from './endpoint.ts'
import { indexView } from './index-view.ts'
import { setupView } from './setup-view.ts'
import type { Explanation, OperationsSources } from './sources.ts'
import { statsView } from './stats-view.ts'
import { verificationView } from './verification-view.ts'

/** The longest URL `explain` takes. */
const longestUrl = 2048

const menu = [
  ['/_cachesvc/', 'Overview'],
  ['/_cachesvc/cache', 'Cache'],
  ['/_cachesvc/stats', 'Statistics'],
  ['/_cachesvc/setup', 'Setup'],
] as const

export class Pages {
  readonly #sources: OperationsSources
  readonly #templates: Templates

  constructor(sources: OperationsSources, templates: Templates) {
    this.#sources = sources
    this.#templates = templates
  }

  async index(): Promise<string> {
    const health = await this.#sources.health()
    const view = indexView(this.#sources, health, this.#endpoint())
    return this.#page('index', 'Overview', '/_cachesvc/', view)
  }

  async cache(): Promise<string> {
    const [usage, health] = await Promise.all([this.#sources.usage(), this.#sources.health()])
    const { config, verification } = this.#sources
    const view = {
      ...cacheView(config, usage, health),
      verification: verificationView(config.verification, verification()),
    }
    return this.#page('cache', 'Cache', '/_cachesvc/cache', view)
  }

  stats(): string {
    const view = statsView(this.#sources.statistics())
    return this.#page('stats', 'Statistics', '/_cachesvc/stats', view)
  }

  setup(): string {
    const view = setupView(this.#sources, this.#endpoint())
    return this.#page('setup', 'Setup', '/_cachesvc/setup', view)
  }

  /** The form, and what is known of the URL in the query's `url`, if it has one. */
  async explain(query: string | undefined): Promise<string> {
    const url = new URLSearchParams(query ?? '').get('url')?.trim() ?? ''
    const tooLong = url.length > longestUrl
    const asked = url !== '' && !tooLong
    const explanation: readonly Explanation[] = asked
      ? ((await this.#sources.explain?.(url)) ?? [])
      : []
    const view = { url: tooLong ? '' : redactUrl(url), tooLong, longestUrl, asked, explanation }
    return this.#page('explain', 'Explain', '/_cachesvc/explain', view)
  }

  notFound(): string {
    return this.#page('not-found', 'Page not found', '', {})
  }

  #page(template: string, title: string, path: string, view: View): string {
    const explain = ['/_cachesvc/explain', 'Explain'] as const
    const entries = this.#sources.explain === undefined ? menu : [...menu, explain]
    return this.#templates.render(template, {
      title,
      version: this.#sources.version,
      project: projectPage,
      menu: entries.map(([href, label]) => ({ href, label, current: href === path })),
      ...view,
    })
  }

  #endpoint() {
    const { config, addresses, listeners } = this.#sources
    return endpoint(config, addresses(), listeners())
  }
}
