/**
 * Whether the client's own fields choose the answer, so that no answer to another request may stand for it (RFC 9111 section 4.1). Such a
 * request is passed through with the client's fields, and its answer is not stored. This concerns files of no APT kind only.
 *
 * # Facts
 * - Programs that get `http_proxy`, such as all those of a container build, ask for more than archives: pages that differ by agent, cookie
 *   and Accept, and registries that know a client by its Accept.
 * - cachesvc asks origins as apt does, with the agent of apt and an Accept for every type. What it stores is what apt would get.
 * - apt sends `Accept: text/*` for a name without a suffix. curl and wget accept every type; they fetch keys, installers and packages too,
 *   which do not differ by agent. Pages do, often without Vary.
 */
import { type Fields, listMembers } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { FileDestination } from '../request/destination.ts'

/**
 * The fields of the client that may choose the answer; undefined when none may: files of archives are the same for all, and where this proxy
 * has the credentials of the archive, nothing is passed through.
 */
export function choosingFields({
  request: { fields },
  file: { archive, confinement, underOurAddress },
}: {
  readonly request: Pick<Request, 'fields'>
  readonly file: FileDestination
}): Fields | undefined {
  if (!isOfNoArchive(archive) || confinement?.credentials !== undefined) return undefined
  return underOurAddress ? fields.without('Cookie') : fields
}

/** Whether the fields of a request alone show that it wants an answer of its own. */
export function asksForItself(file: ArchivePath, request: Fields): boolean {
  const accept = request.get('Accept')?.trim() ?? ''
  return isOfNoArchive(file) && (request.has('Cookie') || !sharedAccept.has(accept))
}

const sharedAccept: ReadonlySet<string> = new Set(['', '*/*', 'text/*'])

/** Whether the response that this cache got, with these fields, may differ from the one that the request would get. */
export function mayDiffer(file: ArchivePath, request: Fields, response: Fields): boolean {
  if (!isOfNoArchive(file)) return false
  const other = isOtherProgram(request)
  if (other && page.test(response.get('Content-Type') ?? '')) return true
  // 4.1: a stored response answers if "all the presented request header fields nominated by that Vary field value match". The request of
  // this cache had none that a client may have, except its agent and Accept.
  return listMembers(response.get('Vary') ?? '').some(member => {
    const name = member.toLowerCase()
    return name === 'user-agent' ? other : !compared.has(name) && request.has(name)
  })
}

/** Whether an error with this status may be one for this cache alone, and another program would get the file or a reason. */
export function mayBeRefused(file: ArchivePath, request: Fields, status: number): boolean {
  return isOfNoArchive(file) && isOtherProgram(request) && [400, 401, 403, 406].includes(status)
}

/** Whether the fields of clients can matter for a file: it has no APT kind, is in no suite, and belongs to no other package manager. */
export function isOfNoArchive({ kind, ofSuite, foreign }: ArchivePath): boolean {
  return kind === 'other' && ofSuite !== true && foreign !== true
}

/** Whether a program other than apt or a cache for apt sends a request. A request without an agent counts as one of apt. */
function isOtherProgram(request: Fields): boolean {
  const agent = request.get('User-Agent')
  return agent !== undefined && !/\bapt\b/i.test(agent)
}

/** The types of content that servers make for one client: pages, and answers to programs. */
const page = /^\s*(text\/(html|xml|json)|application\/(xml|json|[\w.-]+\+(xml|json)))\s*(;|$)/i

/**
 * The fields that `Vary` may name without an effect here. `asksForItself` compares Accept. Content without a coding is acceptable for every
 * Accept-Encoding (RFC 9110 section 12.5.3), and this cache asks for no coding.
 */
const compared: ReadonlySet<string> = new Set(['accept', 'accept-encoding'])
