/**
 * Which test files share a process. A process costs half a second of the processor before its first test; sixteen files that leave
 * nothing behind in it are run one after the other in one.
 */

/** What a file may call of tap's `t` outside its tests when it shares a process. */
export const atTheTop = ['test', 'setTimeout', 'beforeEach', 'testdir'] as const

/** How many files share a process. */
const most = 16

/** What changes the process, or measures it: such a file has one for itself. */
const ofTheProcess = [
  /\bprocess\.(on|once|off|emit|exit|exitCode|chdir|umask|kill|stdin|stdout|stderr|memoryUsage|cpuUsage|resourceUsage)\b/,
  /\bprocess\.env(\.\w+|\[[^\]]+\])? = |\bdelete process\.env\b|\bObject\.assign\(process\.env\b/,
  /\bglobalThis\b|\bgc\(|\bgetHeapStatistics\b|\bmonitorEventLoopDelay\b|\beventLoopUtilization\b/,
  /\bgetActiveResourcesInfo\b|\bsetFlagsFromString\b|\bsyncBuiltinESMExports\b|\bmock\b/,
  // What is said to tap outside a test, and is none of `atTheTop`.
  /^t\.(?!test\b|setTimeout\b|beforeEach\b|testdir\b)\w+/m,
]

/** Whether a compiled test file can share a process with others. */
export function canShare(text: string): boolean {
  return ofTheProcess.every(pattern => !pattern.test(text))
}

/** The files of each process, in the order given but for those that have one for themselves, which come first. */
export function processesFor(
  files: readonly string[],
  shares: (path: string) => boolean,
): readonly (readonly string[])[] {
  const alone = files.filter(path => !shares(path)).map(path => [path])
  const others = files.filter(shares)
  const count = Math.ceil(others.length / most)
  // Neighbours are alike: dealt out in turn, the slow ones of a folder come into different processes.
  const together = Array.from({ length: count }, (_, i) =>
    others.filter((_, at) => at % count === i),
  )
  return [...alone, ...together]
}
