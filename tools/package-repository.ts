/**
 * Makes a signed apt repository of the Debian packages, or adds them to one: `npm run package:repository -- DIRECTORY [PACKAGE.deb…]`.
 * Without packages it takes those in packages/deb, where `npm run package:deb` writes them: build them first.
 *
 * `--key KEY` names a secret key in gpg's keyring by its fingerprint or address. Without it the repository is signed by a new key that is
 * not kept, which is for trying it out. SOURCE_DATE_EPOCH is the date in the Release file.
 */
import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { publish, type Signer, suite, withNewKey } from './packaging/apt-repository.ts'

await run('package-repository', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { key: { type: 'string' } },
  })
  const [given, ...files] = positionals
  if (given === undefined) {
    await print('npm run package:repository -- [--key KEY] DIRECTORY [PACKAGE.deb...]\n')
    return exitCodes.usage
  }
  const directory = resolve(given)
  const packages = files.length > 0 ? files : await built(join(packageRoot(), 'packages/deb'))
  process.umask(0o022)
  const epoch = process.env['SOURCE_DATE_EPOCH']
  const at = epoch === undefined ? Math.floor(Date.now() / 1000) : Number(epoch)
  const sign = (signer: Signer) => publish(packages, { directory, signer, at })
  if (values.key === undefined) await withNewKey(sign)
  else await sign({ key: values.key })
  const lines = [
    `${directory} has ${packages.length} more packages, and is signed.`,
    ...(values.key === undefined
      ? [
          'This key is gone now: the next run makes another. For a repository that stays, name yours: --key KEY',
        ]
      : []),
    'Serve the directory with any web server. Of a client, as root:',
    '  /usr/lib/apt/apt-helper download-file http://HOST/cachesvc.asc /etc/apt/keyrings/cachesvc.asc',
    `  echo 'deb [signed-by=/etc/apt/keyrings/cachesvc.asc] http://HOST ${suite} main' >/etc/apt/sources.list.d/cachesvc.list`,
    '(slim instead of main: the packages that need the Node.js of the system.)',
  ]
  await print(`${lines.join('\n')}\n`)
  return exitCodes.success
})

async function built(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => [])
  const packages = names.filter(name => name.endsWith('.deb')).map(name => join(directory, name))
  if (packages.length > 0) return packages
  throw new Error(`${directory} has no packages: npm run package:deb -- --with-node=amd64,arm64`)
}
