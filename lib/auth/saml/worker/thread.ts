/**
 * One worker thread: is asked one job at a time, and says when it has died. It keeps the process alive only while it works.
 */
import { Worker } from 'node:worker_threads'
import { Failure } from '../../../errors.ts'
import type { Answer, Job, ResultOf } from './jobs.ts'

/** There is no result: the job took too long, too many waited, or the thread died. For the log. */
export class WorkerFailure extends Failure {
  constructor(
    code: 'verifier_deadline' | 'verifier_busy' | 'verifier_crashed',
    message: string,
    cause?: unknown,
  ) {
    super(message, {
      code,
      fault: code === 'verifier_crashed' ? 'internal' : 'downstream',
      publicText: 'The answer of the identity provider could not be checked.',
      cause,
    })
  }
}

export class Thread {
  readonly #worker: Worker
  #alive = true
  /** `never`, because an answer is of the kind of the job that was asked. */
  #settle: (answer: Answer<never> | WorkerFailure) => void = () => {}

  constructor(heapMegabytes: number) {
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), {
      // Secrets arrive with a job; the thread has no use for the environment.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes, stackSizeMb: 4 },
    })
    this.#worker.on('message', (answer: Answer<never>) => this.#settle(answer))
    this.#worker.on('error', cause => this.#die('the thread has died', cause))
    this.#worker.on('exit', () => this.#die('the thread ended early'))
    // Last, because a listener for messages keeps the process alive again.
    this.#worker.unref()
  }

  /** Whether it can be asked again. */
  get alive(): boolean {
    return this.#alive
  }

  /** Does a job. Throws a WorkerFailure when the thread dies first. */
  ask<J extends Job>(job: J): Promise<ResultOf<J>> {
    return new Promise((resolve, reject) => {
      this.#settle = answer => {
        this.#worker.unref()
        if (answer instanceof WorkerFailure) reject(answer)
        else if (answer.ok) resolve(answer.result)
        else reject(new WorkerFailure('verifier_crashed', answer.problem))
      }
      this.#worker.ref()
      this.#worker.postMessage(job)
    })
  }

  /** Ends it, and what it is asked with it. */
  async end(): Promise<void> {
    this.#die('the thread was ended')
    await this.#worker.terminate()
  }

  #die(message: string, cause?: unknown): void {
    this.#alive = false
    this.#settle(new WorkerFailure('verifier_crashed', message, cause))
  }
}
