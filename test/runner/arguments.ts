/**
 * The files that this process runs. Taken from the command line before tap is loaded
 * (`node --import`), which would name the directories of all tests by them.
 */
export const files: readonly string[] = process.argv.splice(1).slice(1)
