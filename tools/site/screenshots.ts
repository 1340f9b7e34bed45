/**
 * Takes the pictures of the site and of README: cachesvc on a day of a network, with machines and archives that a script plays, and
 * `authproxy demo`, started as a user starts it. Everything stays on the loopback.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { type Clock, type Milliseconds, systemClock } from '../../lib/async/clock.ts'
import { packageRoot } from '../../lib/package.ts'
import { TestCache } from '../../test/fixtures/cache/cache.ts'
import { freePort, isFree } from '../../test/fixtures/process/ports.ts'
import { launchBrowser } from '../../test/fixtures/sso/browser.ts'
import { Child } from '../../test/fixtures/sso/child.ts'
import { pictureFile, type Scheme, type SubjectName, schemes, widths } from './pictures.ts'
import { balancer, explainedUrl, playArchives, sendDay } from './traffic.ts'

const height = 800

/** Takes all pictures into a directory. */
export async function takePictures(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true })
  const browser = await launchBrowser({})
  try {
    await ofCachesvc(new Photographer(browser, directory))
    await ofAuthproxy(new Photographer(browser, directory))
  } finally {
    await browser.close()
  }
}

/** Takes pictures of pages, light and dark, in a wide window and in that of a telephone. */
class Photographer {
  readonly #browser: Browser
  readonly #directory: string

  constructor(browser: Browser, directory: string) {
    this.#browser = browser
    this.#directory = directory
  }

  /** `go` leads a new browser from page to page and takes pictures on its way; once for each window. */
  async take(
    go: (page: Page, shoot: (name: SubjectName) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    for (const colorScheme of schemes) {
      for (const width of widths) {
        const context = await this.#browser.newContext({ colorScheme, viewport: { width, height } })
        const page = await context.newPage()
        await go(page, name => this.#shoot(context, page, { name, colorScheme, width }))
        await context.close()
      }
    }
  }

  async #shoot(
    context: BrowserContext,
    page: Page,
    { name, colorScheme, width }: { name: SubjectName; colorScheme: Scheme; width: number },
  ): Promise<void> {
    await writeFile(
      join(this.#directory, pictureFile(name, colorScheme, width)),
      await webp(context, page),
    )
  }
}

/** The whole page as WebP, which Chromium writes and is a third of a PNG. */
async function webp(context: BrowserContext, page: Page, quality = 85): Promise<Buffer> {
  const session = await context.newCDPSession(page)
  const options = { format: 'webp', quality, captureBeyondViewport: true } as const
  const { cssContentSize } = await session.send('Page.getLayoutMetrics')
  const clip = { ...cssContentSize, x: 0, y: 0, scale: 1 }
  const { data } = await session.send('Page.captureScreenshot', { ...options, clip })
  return Buffer.from(data, 'base64')
}

/** The two pictures of README, made of pictures that were taken: one page of cachesvc, and three of authproxy on telephones. */
export async function makeReadmePictures(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  const browser = await launchBrowser({})
  try {
    for (const { name, width, height, shown, scheme } of readmePictures) {
      const images = shown.map(async ([subject, shownWidth]) => {
        const content = await readFile(join(from, pictureFile(subject, scheme, shownWidth)))
        const address = `data:image/webp;base64,${content.toString('base64')}`
        return `<div style="width:${shownWidth}px"><img src="${address}"></div>`
      })
      const context = await browser.newContext({ viewport: { width, height } })
      const page = await context.newPage()
      await page.setContent(`<style>
        body { margin: 0; background: #8f979d; display: flex; gap: 15px; height: ${height}px; overflow: hidden }
        div { overflow: hidden; background: #fff } img { display: block; width: 100% }
        </style>${(await Promise.all(images)).join('')}`)
      await page.waitForFunction('[...document.images].every(image => image.complete)')
      const file = scheme === 'light' ? `${name}.webp` : `${name}-dark.webp`
      await writeFile(join(to, file), await webp(context, page, 75))
    }
  } finally {
    await browser.close()
  }
}

interface ReadmePicture {
  readonly name: string
  readonly width: number
  readonly height: number
  /** Pages side by side, each with its width. */
  readonly shown: ReadonlyArray<readonly [SubjectName, width: 1200 | 390]>
}

const compositions: readonly ReadmePicture[] = [
  { name: 'cachesvc', width: 1200, height: 662, shown: [['cachesvc-overview', 1200]] },
  {
    ...{ name: 'authproxy', width: 1200, height: 700 },
    shown: [
      ['authproxy-sign-in', 390],
      ['authproxy-application', 390],
      ['authproxy-forbidden', 390],
    ],
  },
]

/** The site shows the dark ones on dark pages. */
const readmePictures = schemes.flatMap(scheme => compositions.map(one => ({ ...one, scheme })))

/** The clock of the cache, which a script sets: its hours pass in seconds. Waits are as long as ever. */
class DayClock implements Clock {
  /** The hours until now. */
  left = 23

  now(): Milliseconds {
    return systemClock.now() - this.left * 3_600_000
  }

  elapsed(): Milliseconds {
    return systemClock.elapsed()
  }

  after(delay: Milliseconds, action: () => void): () => void {
    return systemClock.after(delay, action)
  }
}

/** The service within this process, because its clock is that of a day which a script plays. */
async function ofCachesvc(photographer: Photographer): Promise<void> {
  const archives = await playArchives()
  const port = await portLike(3142)
  const clock = new DayClock()
  const stops: Array<() => unknown> = []
  const settings = {
    ...{ listen: [`127.0.0.1:${port}`], freshness: {} },
    ...{ parent_proxy: `http://127.0.0.1:${archives.port}`, proxy_protocol: [balancer] },
    index: { hostnames: ['proxy.example.org'] },
  }
  try {
    await TestCache.start({ teardown: stop => stops.unshift(stop) }, { settings, clock })
    await sendDay(port, left => {
      clock.left = left
    })
    const pages = `http://127.0.0.1:${port}/_cachesvc/`
    await photographer.take(async (page, shoot) => {
      await page.goto(pages)
      await shoot('cachesvc-overview')
      await page.goto(`${pages}explain?url=${encodeURIComponent(explainedUrl)}`)
      await shoot('cachesvc-explain')
      await page.goto(`${pages}setup`)
      await shoot('cachesvc-setup')
    })
  } finally {
    for (const stop of stops.reverse()) await stop()
    archives.server.closeAllConnections()
    archives.server.close()
  }
}

/** The port that users know, so that the pictures have it; another one when it is taken. */
async function portLike(usual: number): Promise<number> {
  return (await isFree(usual)) ? usual : freePort()
}

async function ofAuthproxy(photographer: Photographer): Promise<void> {
  const port = await portLike(8443)
  const demo = await Child.start({
    program: join(packageRoot(), 'bin/authproxy'),
    args: ['demo', '--port', String(port)],
    ready: ({ output }) => output.includes('Ctrl-C'),
  })
  const base = `https://localhost:${port}`
  try {
    await photographer.take(async (page, shoot) => {
      await page.goto(`${base}/`)
      await shoot('authproxy-sign-in')
      await page.click('button[value=bert]')
      await page.locator('#user').waitFor()
      await shoot('authproxy-application')
      await page.goto(`${base}/engineering/`)
      await page.locator('.reference').waitFor()
      await shoot('authproxy-forbidden')
      await page.context().clearCookies()
      await page.goto(`${base}/`)
      await page.selectOption('#answer', 'late')
      await page.click('button[value=ada]')
      await page.locator('.reference').waitFor()
      await shoot('authproxy-error')
    })
  } finally {
    await demo.stop()
  }
}
