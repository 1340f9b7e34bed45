/**
 * Answers `cachesvc build`: it lists, shows, begins, locks and removes builds, fetches their missing files and imports lists.
 */
import { type CommandAnswer, complaintAnswer, outputAnswer } from '../../../admin-socket.ts'
import { explainError } from '../../../errors.ts'
import { countOf, moment, size } from '../../../figures.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { jsonText } from '../../../json.ts'
import { exitCodes } from '../../../program.ts'
import { type Build, contentsOf, isFile } from './build.ts'
import { buildOfList, listText } from './build-file.ts'
import type { Builds } from './builds.ts'

interface BuildRequest {
  readonly act: string
  readonly name: string
  readonly file: string
  readonly json: boolean
}

const mostListBytes = 64 * 1024 * 1024
const mostProblems = 50

export async function buildAnswer(
  builds: Builds,
  fetchMissing: (name: string) => Promise<number | string>,
  asked: BuildRequest,
): Promise<CommandAnswer> {
  const { act, name, json } = asked
  switch (act) {
    case 'list': {
      if (json) return outputAnswer(jsonText(builds.all.map(summaryOf)))
      if (builds.all.length === 0) return outputAnswer('there are no builds\n')
      const total = `${countOf(builds.all.length, 'build')}, ${size(builds.bytes)} kept for them\n`
      return outputAnswer(builds.all.map(lineOf).join('') + total)
    }
    case 'show':
      return shown(builds, name, json)
    case 'text': {
      const build = builds.named(name)
      return build === undefined
        ? complaintAnswer(exitCodes.failure, builds.sentenceWithout(name))
        : outputAnswer(listText(build))
    }
    case 'record': {
      const begun = builds.begin(name)
      if (typeof begun === 'string') return complaintAnswer(exitCodes.failure, begun)
      return outputAnswer(
        `recording: use http://build:${name}@PROXY:3142/ as proxy, or put http://PROXY:3142/_cachesvc/build/${name}/ before the host\n`,
      )
    }
    case 'lock': {
      const problems = await builds.lock(name)
      if (typeof problems === 'string') return complaintAnswer(exitCodes.failure, problems)
      const build = builds.named(name)
      const out = build === undefined ? '' : `locked: ${amountText(build)}\n`
      return { out, complaints: shortened(problems), code: exitCodes.success }
    }
    case 'unlock':
      return done(await builds.unlock(name), `${name} records again\n`)
    case 'remove':
      return done(await builds.remove(name), `removed ${name}\n`)
    case 'fetch': {
      const found = await fetchMissing(name)
      if (typeof found === 'string') return complaintAnswer(exitCodes.failure, found)
      if (found === 0) return outputAnswer('nothing is missing\n')
      return outputAnswer(
        `fetching ${countOf(found, 'file')}; cachesvc build show ${name} says what is missing\n`,
      )
    }
    case 'import':
      return imported(builds, asked)
    default:
      return complaintAnswer(exitCodes.usage, `there is no such action: ${act}`)
  }
}

function done(problem: string | undefined, out: string): CommandAnswer {
  return problem === undefined ? outputAnswer(out) : complaintAnswer(exitCodes.failure, problem)
}

async function shown(builds: Builds, name: string, json: boolean): Promise<CommandAnswer> {
  const build = builds.named(name)
  if (build === undefined) return complaintAnswer(exitCodes.failure, builds.sentenceWithout(name))
  const problems = await builds.problemsOf(build)
  if (json) {
    return outputAnswer(jsonText(detailsOf(build, problems)))
  }
  const rows = [...build.answers]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([url, answer]) => `${isFile(answer) ? answer.size : `(${answer.status})`}\t${url}\n`)
  return {
    out: lineOf(build) + rows.join(''),
    complaints: shortened(problems),
    code: exitCodes.success,
  }
}

async function imported(builds: Builds, { name, file }: BuildRequest): Promise<CommandAnswer> {
  let text: string
  try {
    text = (await readBounded(file, mostListBytes)).bytes.toString()
  } catch (error) {
    return complaintAnswer(
      exitCodes.failure,
      `the service cannot read ${file}: ${explainError(error)}; put it where its user can, such as /var/tmp`,
    )
  }
  const build = buildOfList(text, name, builds.now)
  if (typeof build === 'string') return complaintAnswer(exitCodes.failure, `${file}: ${build}`)
  const problem = await builds.takeOver(build)
  if (problem !== undefined) return complaintAnswer(exitCodes.failure, problem)
  const problems = shortened(await builds.problemsOf(build))
  return { out: `locked: ${amountText(build)}\n`, complaints: problems, code: exitCodes.success }
}

function shortened(problems: readonly string[]): readonly string[] {
  const more = problems.length - mostProblems
  return more > 0 ? [...problems.slice(0, mostProblems), `and ${more} more`] : problems
}

/** The JSON of each build that `cachesvc build list --json` prints. */
export type BuildSummary = ReturnType<typeof summaryOf>

/** The JSON that `cachesvc build show --json` prints. */
export type BuildDetails = ReturnType<typeof detailsOf>

function detailsOf(build: Build, problems: readonly string[]) {
  const answers = [...build.answers].map(([url, answer]) => ({
    url,
    ...(isFile(answer)
      ? { size: answer.size, sha256: answer.digest }
      : { status: answer.status, location: answer.location }),
  }))
  return { ...summaryOf(build), answers, problems }
}

function summaryOf(build: Build) {
  const { name, begun, locked, interrupted, answers, lacking } = build
  const contents = contentsOf([build])
  return {
    name,
    begun: new Date(begun).toISOString(),
    ...(locked !== undefined && { locked: new Date(locked).toISOString() }),
    interrupted,
    answers: answers.size,
    contents: contents.size,
    bytes: [...contents.values()].reduce((sum, one) => sum + one, 0),
    notRecorded: lacking.size,
  }
}

function lineOf(build: Build): string {
  const { name, begun, locked, lacking } = build
  const state =
    locked === undefined ? `recorded since ${moment(begun)}` : `locked ${moment(locked)}`
  const lacks = lacking.size === 0 ? '' : `, ${countOf(lacking.size, 'file')} not recorded`
  return `${name}\t${state}\t${amountText(build)}${lacks}\n`
}

function amountText(build: Build): string {
  const { contents, bytes, answers } = summaryOf(build)
  const without = [...build.answers.values()].filter(answer => !isFile(answer)).length
  const none = without === 0 ? '' : `, ${without} without a file`
  return `${countOf(answers - without, 'file')}, ${countOf(contents, 'content')}, ${size(bytes)}${none}`
}
