// What the buttons of the sample application do, and the fragment only the browser knows.
const say = (id, text) => {
  document.getElementById(id).textContent = text
}

const refused = response => {
  const login = response.headers.get('X-Authproxy-Login')
  return response.status === 401 && login !== null
    ? `401: the session has ended; sign in at ${login}`
    : `${response.status} ${response.statusText}`
}

const tries = {
  socket() {
    const socket = new WebSocket(`wss://${location.host}/socket`)
    let greeted = false
    socket.onmessage = ({ data }) => {
      if (greeted) say('socket-says', `echo: ${data}`)
      else socket.send('hello from the browser')
      greeted = true
    }
    socket.onerror = () => say('socket-says', 'refused')
  },
  events() {
    const events = new EventSource('/events?count=5&every=400')
    events.onmessage = ({ data }) => {
      const { event, of } = JSON.parse(data)
      say('events-say', `event ${event} of ${of}`)
      if (event === of) events.close()
    }
    events.onerror = () => say('events-say', 'interrupted')
  },
  async upload() {
    const response = await fetch('/upload', { method: 'POST', body: new Uint8Array(10_000_000) })
    const told = response.ok ? await response.json() : undefined
    say('upload-says', told ? `${told.bytes} bytes arrived` : refused(response))
  },
  async fields() {
    const response = await fetch('/fields', { headers: { Accept: 'application/json' } })
    say('fields-say', response.ok ? `${response.status} with JSON` : refused(response))
  },
}

for (const button of document.querySelectorAll('[data-try]')) {
  button.addEventListener('click', () => tries[button.dataset.try]())
}

const showFragment = () => {
  if (document.getElementById('fragment')) say('fragment', location.hash || 'none')
}
addEventListener('hashchange', showFragment)
showFragment()
