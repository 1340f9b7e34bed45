/**
 * The file system for a process of root that writes to the directory of another user: what it makes is given to that user.
 *
 * # Facts
 * - The user may have put anything under a name of ours: another name of a file that is not theirs, a link. So a file is given away only
 *   when it was made this moment, or when it is a file of root with one name.
 */
import * as fs from 'node:fs'
import { fromTo, type Owner } from '../../../directory-owner.ts'
import type { FileLayer } from './disk.ts'

const { O_CREAT } = fs.constants

/** The file system, but that new files and directories belong to `owner`. One that cannot be given stays as it is. */
export function givenFiles({ uid, gid }: Owner): FileLayer {
  return {
    ...fs,
    open(path, flags, mode, end) {
      fs.open(path, flags, mode, (error, fd) => {
        if (error || fd === undefined || (flags & O_CREAT) === 0) return end(error, fd)
        fs.fstat(fd, (_, found) => {
          const ours = found?.isFile() === true && found.uid === 0 && found.nlink === 1
          if (ours) fs.fchown(fd, uid, gid, () => end(null, fd))
          else end(null, fd)
        })
      })
    },
    mkdir(path, options, end) {
      fs.mkdir(path, options, (error, first) => {
        if (error || first === undefined) return end(error, first)
        const made = fromTo(first, path)
        const next = (at: number): void => {
          const one = made[at]
          if (one === undefined) end(null, first)
          else fs.lchown(one, uid, gid, () => next(at + 1))
        }
        next(0)
      })
    },
  }
}
