/**
 * What a job learns of its proxy: variables of its environment, and a file for apt.
 *
 * # Facts
 * - apt reads the file that APT_CONFIG names before the files of the machine, so that these win. It uses `Acquire::http::Proxy` for https
 *   too, unless `Acquire::https::Proxy` is set.
 * - curl reads `http_proxy` and not `HTTP_PROXY`; Go prefers `HTTP_PROXY`.
 * - `docker build` knows the argument `http_proxy` without an ARG, and leaves it out of the keys of its layers. With the network of the
 *   host, 127.0.0.1 is the machine of the job.
 */

type Environment = Readonly<Record<string, string | undefined>>

interface JobProxy {
  /** The URL of the proxy, with the name of a build where there is a lock. */
  readonly url: string
  /** Whether files of an earlier day are given, whose Release files may be too old for apt. */
  readonly replays: boolean
}

/** The file for apt. It includes the file that the job already had. */
export function aptSettings({ url, replays }: JobProxy, environment: Environment): string {
  const { APT_CONFIG: included = '', https_proxy: httpsProxy = '' } = environment
  return [
    ...(included === '' ? [] : [`#include "${included}";`]),
    `Acquire::http::Proxy "${url}";`,
    `Acquire::https::Proxy "${httpsProxy === '' ? 'DIRECT' : httpsProxy}";`,
    ...(replays ? ['Acquire::Check-Valid-Until "false";'] : []),
  ]
    .map(line => `${line}\n`)
    .join('')
}

/** The environment of the job. `aptConfig` is the path of the file for apt. */
export function jobEnvironment(
  { url }: JobProxy,
  aptConfig: string,
  environment: Environment,
): Environment {
  return {
    ...environment,
    http_proxy: url,
    ...(environment['HTTP_PROXY'] !== undefined && { HTTP_PROXY: url }),
    APT_CONFIG: aptConfig,
    CACHESVC_DOCKER_BUILD: `--network=host --build-arg=http_proxy=${url}`,
  }
}

/** The settings of a job without a configuration file, as a file has them. */
export function jobSettings(environment: Environment): object {
  const parent = environment['http_proxy'] ?? ''
  // A pattern with a dot in front has the host of its name too, as in this variable.
  const except = (environment['no_proxy'] ?? '')
    .split(',')
    .map(name => name.trim().replace(/^\*?\.?/, ''))
    .filter(name => /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i.test(name))
    .map(name => (/^[\d.]+$/.test(name) ? name : `.${name}`))
  return {
    // The job can reach these places without the proxy as well.
    private_domains: ['0.0.0.0/0', '::/0'],
    ports: ['1-65535'],
    retention: { size: '5G' },
    // A mirror that stalls costs a job seconds, because another one or a stored file answers then.
    timeouts: { connect: '4s', fields: '6s', drain: '5s' },
    ...(parent !== '' && { parent_proxy: { url: parent, except } }),
  }
}
