// The search: every word must occur in a part of a page; parts with the words in their heading come first. The texts are loaded at
// the first use, as a script, because a browser reads no other file of a directory by `file:`.
'use strict'
{
  const box = document.getElementById('site-search')
  const input = document.getElementById('site-words')
  const results = document.getElementById('site-results')
  const found = document.getElementById('site-found')
  const list = results.querySelector('ol')
  const most = 30
  let pages
  let loading = false

  box.hidden = false

  window.searchIndex = given => {
    pages = given.map(page => ({
      ...page,
      parts: page.parts.map(([id, heading, text]) => ({
        id,
        heading,
        text,
        lowHeading: `${page.title} ${heading}`.toLowerCase(),
        low: text.toLowerCase(),
      })),
    }))
    show()
  }

  const load = () => {
    if (loading) return
    loading = true
    const script = document.createElement('script')
    script.src = box.dataset.index
    document.head.append(script)
  }

  const search = words => {
    const hits = []
    for (const page of pages) {
      for (const part of page.parts) {
        let score = 0
        for (const word of words) {
          const inHeading = part.lowHeading.includes(word)
          const at = part.low.indexOf(word)
          if (!inHeading && at < 0) {
            score = 0
            break
          }
          const whole = part.heading.toLowerCase() === words.join(' ')
          score += (inHeading ? 20 : 0) + (whole ? 40 : 0) + (at < 0 ? 0 : 1 + Math.min(4, part.low.split(word).length - 1))
          if (page.title.toLowerCase().includes(word)) score += 3
        }
        if (score > 0) hits.push({ page, part, score })
      }
    }
    return hits.sort((a, b) => b.score - a.score)
  }

  // The words of the text around the first one that was searched for, in which all of them are marked.
  const excerpt = (text, low, words) => {
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
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word.length > 1)
    results.hidden = words.length === 0
    if (words.length === 0 || pages === undefined) {
      found.textContent = words.length === 0 ? '' : 'Loading the texts'
      return list.replaceChildren()
    }
    const hits = search(words)
    found.textContent =
      hits.length === 0 ? 'Nothing has all of these words' : `${hits.length} found${hits.length > most ? `, the first ${most}` : ''}`
    list.replaceChildren(
      ...hits.slice(0, most).map(({ page, part }) => {
        const link = document.createElement('a')
        link.href = `${box.dataset.root}${page.place}${part.id === '' ? '' : `#${part.id}`}`
        const title = document.createElement('strong')
        title.textContent = part.heading === '' || part.heading === page.title ? page.title : `${page.title}: ${part.heading}`
        link.append(title, excerpt(part.text, part.low, words))
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
