/**
 * The feature `fetch-list`: packages of a list, with all that they depend on, for machines that cannot fetch them.
 */
import { pathOption } from '../../../command-line.ts'
import { type Feature, featureCommand } from '../feature.ts'

export const fetchListFeature: Feature = {
  name: 'fetch-list',
  commands: [
    featureCommand({
      name: 'fetch',
      summary: 'fill the store with the packages of a list, for a site without a connection',
      options: {
        packages: {
          value: 'FILE',
          read: pathOption,
          help: 'the list of packages, a line for each, as apt-get install takes them',
        },
        from: {
          value: 'URL',
          help: 'the archive; if not given, the sources of apt on this machine',
        },
        component: {
          value: 'NAME',
          many: true,
          help: 'a component of the suites, `main` if none is named; may be repeated',
        },
        arch: {
          value: 'NAME',
          help: 'the architecture, such as amd64; that of this machine if not given',
        },
        keyring: {
          value: 'FILE',
          read: pathOption,
          help: 'the keys of the archive; those that apt trusts if not given',
        },
        'with-dependencies': { help: 'and all that they depend on, as on a new machine' },
        sources: { help: 'and their sources' },
      },
      takes: ['suite'],
      run: async ({ options }, { config }) => {
        const { fetchList } = await import('./command.ts')
        return fetchList(config, options)
      },
    }),
  ],
}
