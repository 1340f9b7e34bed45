/**
 * For pages of an application behind authproxy: calls that go on after a login in a window of its own.
 *
 *     import { fetchSignedIn } from '/__authproxy/login.js'
 *     const answer = await fetchSignedIn('/api/items', { method: 'POST', body })
 *
 * A page that shows something of its own in the place of the bar listens to the event `authproxy-login` of its window, calls
 * preventDefault, and later `detail.open()` from a click, or `detail.cancel()`.
 */

const channel = new BroadcastChannel('authproxy')
const longestWait = 600_000
const texts = {
  en: ['Your session has ended. Sign in again to go on.', 'Sign in', 'Not now'],
  de: ['Ihre Sitzung ist beendet. Melden Sie sich wieder an, um fortzufahren.', 'Anmelden', 'Jetzt nicht'],
  da: ['Din session er afsluttet. Log ind igen for at fortsætte.', 'Log ind', 'Ikke nu'],
  fr: ['Votre session est terminée. Reconnectez-vous pour continuer.', 'Se connecter', 'Pas maintenant'],
}

/** Who is signed in: the JSON of /__authproxy/whoami; undefined without a session. */
export async function whoami() {
  const answer = await fetch('/__authproxy/whoami', { cache: 'no-store' }).catch(() => undefined)
  return answer?.ok ? answer.json() : undefined
}

/** Whose page this is: nothing is repeated in the name of another user. */
const owner = whoami()
/** The login under way, which every call that fails meanwhile waits for. */
let login
/** When the last one ended, and whether the person did not want it. */
let [ended, declined] = [-1, false]

/** As fetch. A call that needs a login is made once more after it; its first answer, 401, comes back when there was none. */
export async function fetchSignedIn(input, init) {
  const request = new Request(input, init)
  const again = request.clone()
  const began = performance.now()
  const answer = await fetch(request)
  const address = loginAddress(answer)
  if (address === undefined) return answer
  const clicked = navigator.userActivation?.isActive ?? false
  // Who does not want to sign in is asked again when they do something, and not by calls that the page makes by itself.
  if (login === undefined && declined && !clicked) return answer
  // A call that was under way while the person signed in needs no other login.
  if (began > ended) login ??= signIn(address, clicked).finally(() => (login = undefined))
  await login
  const [before, now] = await Promise.all([owner, whoami()])
  const isOther = before !== undefined && now !== undefined && before.subject !== now.subject
  if (isOther) window.dispatchEvent(new CustomEvent('authproxy-other-user', { detail: now }))
  if (now === undefined || isOther) return answer
  void answer.body?.cancel()
  return fetch(again)
}

/** Where the login for this answer begins; undefined when it needs none, or does not come from our own origin. */
function loginAddress(answer) {
  const named = answer.status === 401 ? answer.headers.get('X-Authproxy-Login') : null
  if (!named?.startsWith(`${location.origin}/__authproxy-redirect?`)) return undefined
  const address = new URL(named)
  address.searchParams.set('login', '/__authproxy/signed-in')
  return address.href
}

/** Settles when the person has signed in, does not want to, or has not for ten minutes. */
async function signIn(address, clicked) {
  const before = await whoami()
  const end = new AbortController()
  const { signal } = end
  const open = () => window.open(address, 'authproxy-login', 'popup,width=560,height=720')
  const finish = wanted => {
    declined = !wanted
    end.abort()
  }
  // The window of the login says when it is done; where it cannot, the person comes back to this one.
  const look = async () => {
    const now = await whoami()
    if (now !== undefined && now.sessionMade !== before?.sessionMade) finish(true)
  }
  channel.addEventListener('message', look, { signal })
  window.addEventListener('focus', look, { signal })
  const timer = setTimeout(finish, longestWait, false)
  const detail = { open, cancel: () => finish(false) }
  const event = new CustomEvent('authproxy-login', { cancelable: true, detail })
  const bar = window.dispatchEvent(event) ? showBar(detail) : undefined
  // Browsers open a window only for a person who has just done something; otherwise the bar has the button.
  if (clicked) open()
  await new Promise(done => signal.aborted ? done() : signal.addEventListener('abort', done))
  clearTimeout(timer)
  bar?.remove()
  ended = performance.now()
}

/** A bar above the page, with a button that opens the window. Its style needs no exception in a content security policy. */
function showBar({ open, cancel }) {
  const [text, yes, no] = texts[document.documentElement.lang.slice(0, 2).toLowerCase()] ?? texts.en
  const bar = document.createElement('div')
  bar.setAttribute('role', 'alert')
  bar.append(text, button(yes, open), button(no, cancel))
  Object.assign(bar.style, { position: 'fixed', zIndex: '2147483647', inset: '0 0 auto 0' })
  Object.assign(bar.style, { display: 'flex', flexWrap: 'wrap', alignItems: 'center', gap: '0.5rem' })
  Object.assign(bar.style, { padding: '0.75rem 1rem', font: '1rem/1.5 system-ui, sans-serif' })
  Object.assign(bar.style, { color: '#fff', background: '#1d2129' })
  document.body.append(bar)
  return bar
}

function button(text, act) {
  const made = document.createElement('button')
  made.type = 'button'
  made.textContent = text
  Object.assign(made.style, { padding: '0.25rem 0.75rem', font: 'inherit' })
  made.addEventListener('click', () => act())
  return made
}
