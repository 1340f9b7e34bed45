/**
 * Compiles and runs load.c, the client of the bench.
 */
import { join } from 'node:path'
import { command } from '../test/fixtures/command.ts'

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
  /** Connections that ended too early, answers that could not be read. */
  readonly failed: number
  /** Answers whose status or content was not the expected one. */
  readonly wrong: number
  /** From the request to the first byte of content. */
  readonly first: Times
  /** When the last answer's first byte of content came, by the machine's monotonic clock. */
  readonly lastFirst: number
  /** From the request to the last. */
  readonly whole: Times
}

export interface LoadPlan {
  readonly port: number
  readonly targets: readonly string[]
  readonly connections: number
  readonly requests: number
  /** No new request after so many seconds. */
  readonly seconds: number
  /** A file every content has to equal. */
  readonly expected?: string
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

  async run(plan: LoadPlan): Promise<LoadResult> {
    const { port, targets, connections, requests, seconds, expected } = plan
    const numbers = ['-c', connections, '-n', requests, '-s', seconds].map(String)
    const file = expected === undefined ? [] : ['-f', expected]
    const args = ['-a', `127.0.0.1:${port}`, ...numbers, ...file, ...targets]
    const printed = await command(this.#program, args, { deadline: seconds * 2000 + 30_000 })
    return JSON.parse(printed.toString()) as LoadResult
  }
}
