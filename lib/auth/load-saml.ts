/**
 * Finds the SAML room when it is first needed, so that commands that have nothing to do with logins start without its
 * libraries.
 */
import { Failure } from '../errors.ts'
import type { CreateSamlService } from './saml/service.ts'

/** `createSamlService` of saml/service.ts. Throws a Failure when the installation lacks it. */
export async function loadSaml(): Promise<CreateSamlService> {
  // As a value, because the compiler would otherwise want the file to be there while it is being written.
  const place = new URL('./saml/service.js', import.meta.url).href
  try {
    const room: unknown = await import(place)
    if (typeof room === 'object' && room !== null && 'createSamlService' in room) {
      const { createSamlService } = room
      if (typeof createSamlService === 'function') return createSamlService as CreateSamlService
    }
    throw new Error(`${place} has no createSamlService`)
  } catch (cause) {
    throw new Failure('the SAML part of the installation is missing', {
      code: 'INSTALLATION',
      fault: 'internal',
      publicText: 'The service cannot start.',
      cause,
    })
  }
}
