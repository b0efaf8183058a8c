import * as childProcess from "node:child_process"
import * as fs from "node:fs"

/** Whether there is a process of this id, of whatever user. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it lives, and belongs to another user
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/**
 * When a process began, as a text that only this process on this boot has; undefined if that cannot be found out. On
 * Linux these are ticks since the machine started, so the id of the boot belongs to it.
 */
export const startTimeOf = (pid: number): string | undefined => {
  try {
    if (process.platform === "linux") {
      const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
      // the second field is the program's name in parentheses, and may hold anything
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
      // ended, and its parent has not noticed yet
      if (fields[0] === "Z" || fields[0] === "X") return "ended"
      const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim()
      return `${fields[19]}@${boot}`
    }
    const started = childProcess.execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], {
      encoding: "utf8",
      env: { LC_ALL: "C", TZ: "UTC" }
    }).trim()
    return started === "" ? undefined : started
  } catch {
    return undefined
  }
}
