// The box of the search, its results and its keys. The engine and the texts are loaded at the first use, as scripts, because a browser
// reads no other file of a directory by `file:`.
'use strict'
{
  const box = document.getElementById('site-search')
  const input = document.getElementById('site-words')
  const results = document.getElementById('site-results')
  const found = document.getElementById('site-found')
  const list = results.querySelector('ol')
  const most = 30
  let search
  let loading = false

  box.hidden = false

  window.searchIndex = pages => {
    search = window.siteSearch(window.MiniSearch, pages)
    show()
  }

  const load = () => {
    if (loading) return
    loading = true
    for (const address of box.dataset.scripts.split(' ')) {
      const script = document.createElement('script')
      script.src = address
      // In their order.
      script.async = false
      document.head.append(script)
    }
  }

  // The words of the text around the first one that was searched for, in which all of them are marked.
  const excerpt = (text, words) => {
    const low = text.toLowerCase()
    const first = Math.min(...words.map(word => low.indexOf(word)).filter(at => at >= 0), low.length)
    const begin = first > 60 ? text.indexOf(' ', first - 60) + 1 : 0
    const end = text.length > begin + 180 ? text.lastIndexOf(' ', begin + 180) : text.length
    const piece = text.slice(begin, end) + (end < text.length ? ' …' : '')
    const line = document.createElement('span')
    line.append(begin > 0 ? '… ' : '')
    const marks = new RegExp(`(${words.map(word => word.replace(/[^\p{L}\p{N}]/gu, '\\$&')).join('|')})`, 'gi')
    piece.split(marks).forEach((text, index) => {
      if (index % 2 === 0) return line.append(text)
      const mark = document.createElement('mark')
      mark.textContent = text
      line.append(mark)
    })
    return line
  }

  const show = () => {
    const question = input.value.trim()
    results.hidden = question.length < 2
    if (question.length < 2 || search === undefined) {
      found.textContent = question.length < 2 ? '' : 'Loading the texts'
      return list.replaceChildren()
    }
    const hits = search(question)
    found.textContent =
      hits.length === 0 ? 'Nothing found' : `${hits.length} found${hits.length > most ? `, the first ${most}` : ''}`
    list.replaceChildren(
      ...hits.slice(0, most).map(({ page, part, terms }) => {
        const link = document.createElement('a')
        link.href = `${box.dataset.root}${page.place}${part.id === '' ? '' : `#${part.id}`}`
        const title = document.createElement('strong')
        title.textContent = part.heading === '' || part.heading === page.title ? page.title : `${page.title}: ${part.heading}`
        link.append(title, excerpt(part.text, terms))
        const item = document.createElement('li')
        item.append(link)
        return item
      }),
    )
  }

  const close = () => {
    results.hidden = true
  }

  input.addEventListener('focus', () => {
    load()
    if (input.value !== '') show()
  })
  input.addEventListener('input', show)
  input.addEventListener('keydown', event => {
    if (event.key === 'Enter') list.querySelector('a')?.click()
    if (event.key === 'ArrowDown') list.querySelector('a')?.focus()
    if (event.key === 'ArrowDown') event.preventDefault()
  })
  list.addEventListener('keydown', event => {
    const item = document.activeElement.closest('li')
    const next = event.key === 'ArrowDown' ? item?.nextElementSibling : event.key === 'ArrowUp' ? item?.previousElementSibling : undefined
    if (event.key === 'ArrowUp' && next === null) input.focus()
    next?.querySelector('a').focus()
    if (event.key.startsWith('Arrow')) event.preventDefault()
  })
  list.addEventListener('click', close)
  document.addEventListener('keydown', event => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault()
      input.focus()
    }
    if (event.key === 'Escape') close()
  })
  document.addEventListener('click', event => {
    if (!box.contains(event.target)) close()
  })
}
