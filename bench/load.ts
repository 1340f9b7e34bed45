/**
 * Compiles and runs load.c, the client of the bench.
 */
import { join } from 'node:path'
import { command } from '../test/fixtures/process/command.ts'

/** Milliseconds. */
export interface Times {
  readonly min: number
  readonly median: number
  readonly p99: number
  readonly max: number
}

export interface LoadResult {
  readonly seconds: number
  readonly responses: number
  readonly bytes: number
  /** Connections that ended too early, responses that could not be read. */
  readonly failed: number
  /** Responses whose status or content was not the expected one. */
  readonly wrong: number
  /** From the request to the first byte of content. */
  readonly first: Times
  /** From the request to the last byte. */
  readonly whole: Times
}

export interface LoadPlan {
  readonly targets: readonly string[]
  /** 1 when not given. */
  readonly connections?: number
  /** One of each target when not given. */
  readonly requests?: number
  /** No new request after so many seconds; 30 when not given. */
  readonly seconds?: number
  /** Milliseconds from one request of a connection to its next. */
  readonly interval?: number
  /** A file every content has to equal. */
  readonly expected?: string
  /** Further field lines of each request, without the last line break. */
  readonly fields?: string
  /** Each request is a POST of so many bytes, which count as those of its response. */
  readonly upload?: number
  /** Each connection is a WebSocket, and each request so many bytes that come back. */
  readonly echo?: number
  /** Each request is a check of nginx at this path, which names the target in X-Original-URI. */
  readonly check?: string
  /** The status of each response: 200 when not given. */
  readonly status?: 304
  /** Each request has a connection of its own. */
  readonly alwaysNew?: boolean
  /** How the server is asked: as a proxy when not given. */
  readonly as?: 'origin' | 'tunnel'
}

const source = join(import.meta.dirname, '../../bench/load.c')

export class LoadClient {
  readonly #program: string

  private constructor(program: string) {
    this.#program = program
  }

  /** Needs a C compiler; the program goes to `directory`. */
  static async compile(directory: string): Promise<LoadClient> {
    const program = join(directory, 'load')
    await command('gcc', ['-O2', '-o', program, source])
    return new LoadClient(program)
  }

  /** Sends requests to a port of the loopback. Throws when one response was not as it should be. */
  async run(port: number, plan: LoadPlan): Promise<LoadResult> {
    const { targets, connections = 1, requests = targets.length, seconds = 30 } = plan
    const args = ['-a', `127.0.0.1:${port}`, '-c', connections, '-n', requests, '-s', seconds]
    if (plan.interval !== undefined) args.push('-i', plan.interval)
    if (plan.expected !== undefined) args.push('-f', plan.expected)
    if (plan.fields !== undefined) args.push('-H', plan.fields)
    if (plan.upload !== undefined) args.push('-u', plan.upload)
    if (plan.echo !== undefined) args.push('-w', plan.echo)
    if (plan.check !== undefined) args.push('-q', plan.check)
    if (plan.status !== undefined) args.push('-x', plan.status)
    if (plan.alwaysNew === true) args.push('-k')
    if (plan.as !== undefined) args.push(plan.as === 'tunnel' ? '-t' : '-o')
    const options = { deadline: seconds * 1000 + 60_000 }
    const printed = await command(this.#program, [...args.map(String), ...targets], options)
    const result: LoadResult = JSON.parse(printed.toString())
    const { responses, failed, wrong } = result
    if (failed + wrong === 0 && responses > 0) return result
    throw new Error(`${responses} responses, ${wrong} of them wrong, and ${failed} failed`)
  }
}
