/**
 * Lists the checks of `authproxy doctor` and runs them, from what the others depend on to what users see last.
 * No check changes anything.
 */
import { closeClients } from '../ask.ts'
import { type Check, check, type Diagnosis, doubtfulFinding, goodFinding } from '../check.ts'
import { type Examination, throughEdge } from '../facts.ts'
import * as backend from './backend.ts'
import * as edge from './edge.ts'
import { forwardAuthChecks } from './forward-auth.ts'
import * as idp from './idp.ts'
import * as keys from './keys.ts'
import * as neighbours from './neighbours.ts'
import * as publicHost from './public-host.ts'
import * as service from './service.ts'
import * as sessions from './sessions.ts'
import { sharedStateChecks } from './shared-state.ts'

const checks: readonly Check[] = [
  check('configuration', 'are there warnings about it?', warnings),
  check('host name', 'does another instance have it too?', neighbours.hostName),
  check('owner of files', 'do they belong to the owner of their directory?', keys.owners),
  check('volume of files', 'is it only of this machine?', keys.volume),
  check('dynamic configuration', 'can only the service read it?', keys.file),
  check('own SAML certificate', 'how long is it valid?', keys.certificate),

  check('service', 'does this instance answer at its own address?', service.instance),
  check('configuration in force', 'is it the one read here?', service.configuration),
  check('readiness', 'does the admin listener call the service ready?', service.readiness),

  ...sharedStateChecks,

  check('identity.names', 'in which headers does the application read who asks?', backend.names),
  check('identity.rename', 'can the file with names of groups be read?', backend.groupNames),
  check('proxy.targetCertificates', 'can the file be read?', backend.authorities),
  check(
    'certificate for the backend',
    'can its files be read, and does it last?',
    backend.clientCertificate,
  ),
  check('backend', 'does the application answer at proxy.targetURL?', backend.application),
  check('loop', 'does proxy.targetURL lead back to this instance?', backend.loop),
  check('backendCredential', 'can only the service read its file?', backend.credentialFile),
  check('backend without credential', 'does it refuse requests?', backend.withoutCredential),
  check(
    'names beyond ASCII',
    'does the application take them, also where it opens a WebSocket?',
    backend.namesBeyondAscii,
  ),
  check('certificate of the backend', 'how long is it valid?', backend.certificate),

  check('name of the public host', 'does this machine know its address?', publicHost.name),
  check('certificate of the public host', 'do browsers accept it?', publicHost.certificate),
  check('public host', 'does it lead to this instance?', publicHost.instance),
  check('loop', 'does the edge send requests in a circle?', publicHost.loop),
  check('clock against the edge', 'does it agree with ours?', publicHost.clock),

  edgeCheck('Host', 'does the edge preserve it?', edge.host),
  edgeCheck('X-Forwarded-Proto', 'does the edge set it to https?', edge.proto),
  edgeCheck('X-Forwarded-For', 'does the edge set it to the client?', edge.client),
  edgeCheck('paths', 'do all paths of authproxy arrive, POST included?', edge.paths),
  edgeCheck('odd paths', 'do encoded characters arrive unchanged?', edge.oddPath),
  edgeCheck('pages of errors', 'do they arrive as they were sent?', edge.errorPages),
  edgeCheck('WebSockets', 'does the request to open one arrive?', edge.webSocket),
  edgeCheck('cookies of a session', 'do those of a large session arrive?', edge.requestHead),
  edgeCheck('cookies of a login', 'does a response that sets them come back?', edge.responseHead),

  ...forwardAuthChecks,

  check('IdP metadata', 'can it be fetched or read, and used?', idp.availability),
  idpCheck('IdP metadata in force', 'is it that of the service?', idp.inForce),
  idpCheck('end of the IdP metadata', 'is it valid for long enough?', idp.validity),
  idpCheck('IdP metadata in detail', 'can all of it be used?', idp.details),
  idpCheck('IdP certificates', 'how long are they valid?', idp.certificates),
  idpCheck('clock against the IdP', 'does it agree with ours?', idp.clock),

  check('attributes of the last login', 'are all of them read?', sessions.attributes),
  check('session size', 'do browsers accept the cookies of many groups?', sessions.size),
]

/** A check that can be asked only when a plain probe led through the edge to this instance. */
function edgeCheck(name: string, asks: string, answer: edge.EdgeAnswer): Check {
  return check(`${name} through the edge`, asks, async of => {
    const arrived = (await throughEdge(of))?.answer
    return arrived && answer(of, arrived)
  })
}

/** A check that can be asked only when the metadata of the identity provider is known. */
function idpCheck(name: string, asks: string, answer: idp.IdpAnswer): Check {
  return check(name, asks, async of => {
    const known = (await idp.metadata(of)).idp
    return known && answer(of, known)
  })
}

function warnings({ from, warnings }: Examination) {
  if (warnings.length === 0) return goodFinding(`${from}: no problems`)
  return warnings.map(warning => doubtfulFinding(warning, 'see authproxy.yaml(5)'))
}

/** The names of all checks. */
export function checkNames(): readonly string[] {
  return checks.map(({ name }) => name)
}

/** Examines an instance. Never throws. */
export async function* examine(examination: Examination): AsyncGenerator<Diagnosis> {
  try {
    for (const { name: what, asks, answer } of checks) {
      const found = (await answer(examination)) ?? { state: 'not asked', found: asks }
      for (const finding of Array.isArray(found) ? found : [found]) yield { what, ...finding }
    }
  } finally {
    await closeClients(examination)
  }
}
