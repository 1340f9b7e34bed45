/**
 * The records of builds as a bundle carries them.
 */
import { countOf } from '../../../figures.ts'
import type { CarriedRecords } from '../feature.ts'
import { decodeBuild, mostRecordBytes, recordsDirectory } from './build-file.ts'
import { addRecord, keepersIn } from './records.ts'

export const carriedBuilds: CarriedRecords = {
  directory: recordsDirectory,
  mostBytes: mostRecordBytes,
  read(name, text) {
    const build = decodeBuild(text)
    if (typeof build === 'string') return build
    if (build.name !== name) return 'it is that of another build'
    return {
      name,
      text: `the build ${name}, ${countOf(build.answers.size, 'answer')}`,
      add: cacheDirectory => addRecord(cacheDirectory, build),
    }
  },
  keepersIn,
}
