/**
 * `npm run site [-- DIRECTORY]`: takes the pictures and writes the site, into `website` where no directory is named.
 * `npm run screenshots` takes the pictures alone, and renews those of README from them.
 */
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../lib/package.ts'
import { exitCodes, print, run } from '../../lib/program.ts'
import { noBrowser } from '../../test/fixtures/sso/browser.ts'
import { buildSite, picturesDirectory } from './build.ts'
import { makeReadmePictures, takePictures } from './screenshots.ts'

await run('site', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'only-pictures': { type: 'boolean', default: false },
      'without-pictures': { type: 'boolean', default: false },
    },
  })
  const root = packageRoot()
  const directory = resolve(positionals[0] ?? join(root, 'website'))
  const pictures = join(directory, picturesDirectory)
  if (noBrowser !== false) await print(`no pictures: ${noBrowser}\n`)
  else if (!values['without-pictures']) await takePictures(pictures)
  if (values['only-pictures']) {
    if (noBrowser !== false) return exitCodes.failure
    await makeReadmePictures(pictures, join(root, 'docs/pictures'))
    return exitCodes.success
  }
  const pages = await buildSite(root, directory)
  await print(
    `${pages.length} pages in ${directory}: open index.html, or have a file server serve the directory\n`,
  )
  return exitCodes.success
})
