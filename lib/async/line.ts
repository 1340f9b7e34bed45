/**
 * The line of requests that wait for a connection to one origin, or of jobs that wait for a thread.
 *
 * Their clients take turns, and a turn of a client that holds n connections lasts n + 1 rounds: clients with few connections go before
 * clients with many, and no request waits for ever. Requests of one client go in the order they came.
 */

interface Queue<Request> {
  readonly requests: Set<Request>
  /** The round of its last turn, or the round in which it came. */
  since: number
  holds: number
}

/** Holds the waiting requests, and chooses the next one. Requests with the `client` "" count as those of one client. */
export class Line<Request extends { readonly client: string }> {
  readonly #clients = new Map<string, Queue<Request>>()
  #round = 0
  size = 0

  waiting(): ReadonlyMap<string, number> {
    return new Map([...this.#clients].map(([client, { requests }]) => [client, requests.size]))
  }

  of(client: string): number {
    return this.#clients.get(client)?.requests.size ?? 0
  }

  /** Sets how many connections each client holds. A client that is missing from the map holds none. */
  weigh(held: ReadonlyMap<string, number>): void {
    for (const [client, queue] of this.#clients) queue.holds = held.get(client) ?? 0
  }

  add(request: Request): void {
    const own = this.#clients.get(request.client)
    if (own !== undefined) own.requests.add(request)
    else {
      const requests = new Set([request])
      this.#clients.set(request.client, { requests, since: this.#round, holds: 0 })
    }
    this.size += 1
  }

  /** The request whose turn it is. It stays in the line. */
  next(): Request | undefined {
    const [first] = this.#first()?.requests ?? []
    return first
  }

  /** Removes and returns the request whose turn it is. */
  take(): Request | undefined {
    const queue = this.#first()
    const [request] = queue?.requests ?? []
    if (queue === undefined || request === undefined) return undefined
    queue.since = turnOf(queue)
    this.#round = Math.max(this.#round, queue.since)
    this.delete(request)
    // The client goes behind the others whose next turn is in the same round.
    if (this.#clients.delete(request.client)) this.#clients.set(request.client, queue)
    return request
  }

  /** Removes the request from the line; false when it was not in it. */
  delete(request: Request): boolean {
    const own = this.#clients.get(request.client)
    if (own === undefined || !own.requests.delete(request)) return false
    this.size -= 1
    if (own.requests.size === 0) this.#clients.delete(request.client)
    return true
  }

  /** Removes and returns the newest request of the client with the most requests. */
  drop(): Request | undefined {
    let most: ReadonlySet<Request> = new Set()
    for (const { requests } of this.#clients.values()) {
      if (requests.size > most.size) most = requests
    }
    const newest = [...most].at(-1)
    if (newest !== undefined) this.delete(newest)
    return newest
  }

  /** The queue whose turn is next; among several in one round, that of the client that has waited longest. */
  #first(): Queue<Request> | undefined {
    let first: Queue<Request> | undefined
    for (const queue of this.#clients.values()) {
      if (first === undefined || turnOf(queue) < turnOf(first)) first = queue
    }
    return first
  }
}

/** The round of a client's next turn. */
function turnOf({ since, holds }: Queue<unknown>): number {
  return since + holds + 1
}
