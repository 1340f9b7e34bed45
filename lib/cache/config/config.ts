/**
 * The configuration of cachesvc as the rest of the service sees it. What its file may say, with defaults and manual, is told
 * in settings.ts; how one becomes the other in load-config.ts.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Authority, Scheme } from '../../http/message/target.ts'
import type { ListenAddress } from '../../http/server/listen.ts'

/**
 * One line of a host list: `archive.example.org` is that host, `.example.org` its subdomains too, `host:port` that port only.
 */
export interface HostPattern {
  /** As written in the configuration; refusals quote it. */
  readonly text: string
  /** Lower case, no leading dot, no brackets. */
  readonly host: string
  readonly subdomains: boolean
  readonly port: number | undefined
}

export interface ParentProxy extends Authority {
  /** `user:password` for Proxy-Authorization, already decoded. Never log it. */
  readonly credentials: string | undefined
}

/** What becomes of CONNECT, and the certificates that takes. */
export interface HttpsConfig {
  /** Refuse CONNECT altogether. */
  readonly prevent: boolean
  /** Open the tunnels of hosts that no list below names. */
  readonly intercept: boolean
  readonly interceptDomains: readonly HostPattern[]
  readonly tunnelDomains: readonly HostPattern[]
  readonly refuseDomains: readonly HostPattern[]
  /** PEM file of the operator's CA; undefined for one of our own making. */
  readonly cert: string | undefined
  /** PEM file of its key; undefined when that stands in `cert`. */
  readonly key: string | undefined
  /** Of the key. Never log it. */
  readonly password: string
  /** The name certificates know this proxy by. */
  readonly certificateDomain: string | undefined
  /** URL of the CA certificate. */
  readonly aiaAddress: string | undefined
  readonly enableCrl: boolean
  /** PEM files of CAs origins may have their certificates from, besides the well-known ones. */
  readonly originCa: readonly string[]
  /** How long a client that rejected our certificate is tunnelled; 0 for not at all. */
  readonly rememberDistrust: Milliseconds
}

/** One end of a routing rule: `archive.example.org/debian`, with a scheme and a port when they matter, or a path alone. */
export interface Place {
  /** As written in the configuration. */
  readonly text: string
  /** Undefined stands for both: whatever was asked for. */
  readonly scheme: Scheme | undefined
  /** Undefined for a path alone, which is of every host. */
  readonly host: string | undefined
  /** Whether hosts below `host` are meant too. */
  readonly subdomains: boolean
  /** Undefined is the default port of the scheme. */
  readonly port: number | undefined
  /** Begins with a slash and does not end with one; empty when there is none. Canonical spelling. */
  readonly path: string
}

/** What is asked for at `from` is fetched from `to`. */
export interface Remap {
  readonly from: Place
  readonly to: Place
}

export interface Config {
  readonly cacheDirectory: string
  /** The first is the main one: the one examples and `Location` hints name. */
  readonly listen: readonly ListenAddress[]
  /** The listener clients speak TLS to. */
  readonly listenSecure: ListenAddress | undefined
  /** Hosts that may be fetched and stored. Empty together with passthroughDomains: every host at a public address. */
  readonly domains: readonly HostPattern[]
  /** Hosts that are fetched or tunnelled but never stored. */
  readonly passthroughDomains: readonly HostPattern[]
  /** Networks in CIDR notation whose clients may use the proxy. The operations interface answers everybody. */
  readonly clients: readonly string[]
  /** Ports of origins that need no mention in a host list. */
  readonly ports: readonly number[]
  /** Ports that CONNECT may reach. */
  readonly connectPorts: readonly number[]
  readonly parentProxy: ParentProxy | undefined
  /** Rules of routing in their order; the first that fits wins. */
  readonly remap: readonly Remap[]
  /** Mirrors asked in place of the distributions' own hosts. */
  readonly overrides: {
    readonly ubuntuServer: Place | undefined
    readonly debianServer: Place | undefined
  }
  readonly https: HttpsConfig
  readonly index: {
    /** Kept for compatibility; the pages answer regardless. */
    readonly enable: boolean
    /** Names this proxy goes by; the first is the host in generated examples. */
    readonly hostnames: readonly string[]
    /** Shown on the index page as text: whom to ask. */
    readonly contact: string
  }
  readonly expiration: {
    /** Stored objects nobody asked for in so many days are removed; 0 keeps them for ever. */
    readonly unusedDays: number
  }
  readonly verification: {
    /** How long after a check of everything stored the next one begins; 0 is never. */
    readonly interval: Milliseconds
    /** Bytes a second the check reads at most; 0 is as fast as it goes. */
    readonly rate: number
  }
  readonly freshness: {
    /** How long an index or Release file is answered without asking the origin, when the client does not insist. */
    readonly index: Milliseconds
    /** The same for files that are neither indexes nor immutable. */
    readonly other: Milliseconds
    /** How long an origin's 404 is remembered. */
    readonly negative: Milliseconds
    /** A validation this recent satisfies even a client that insists (max-age=0): many machines ask at once. */
    readonly floor: Milliseconds
  }
  readonly timeouts: {
    /** Name look-up and connection to an origin, parent proxy or tunnel end, each. */
    readonly connect: Milliseconds
    /** From a sent request to the origin's response head. */
    readonly fields: Milliseconds
    /** The longest silence within the origin's content. */
    readonly content: Milliseconds
    /** How long a client waits for the revalidation of something stored before it gets the stored copy. */
    readonly revalidation: Milliseconds
    /** The longest silence of a tunnel, both ways. */
    readonly tunnel: Milliseconds
    /** For a client to send its request head. */
    readonly clientHead: Milliseconds
    /** For an idle client connection between requests. */
    readonly clientIdle: Milliseconds
    /** For a client that does not take what it asked for. */
    readonly clientStalled: Milliseconds
    /** For running transfers when the daemon stops. */
    readonly drain: Milliseconds
  }
  readonly limits: {
    /** Bytes of a request's head. */
    readonly head: number
    /** Client connections at once; further ones are closed when they come. */
    readonly connections: number
    /** Memory for small content in demand, bytes. */
    readonly memory: number
    /** Connections to one origin at once, and as many again for what is passed through to single clients. */
    readonly originConnections: number
  }
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error'
    /** Whether every request is logged. */
    readonly access: boolean
  }
}
