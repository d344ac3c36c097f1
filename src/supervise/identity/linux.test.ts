/** If one process in /proc cannot be read, no process is known to be gone. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { killIfSame } from "../leftovers.ts";
import { createLinuxIdentity } from "./linux.ts";

function writeProcess(proc: string, pid: number, group: number): string {
  const dir = join(proc, String(pid));
  mkdirSync(dir);
  const stat = [pid, "(engine)", "S", 1, group, group, ...Array(13).fill(0), 0, 0, 77].join(" ");
  writeFileSync(join(dir, "stat"), stat);
  writeFileSync(join(dir, "environ"), "A=1\0MARK=x\0");
  return dir;
}

test("group members, marked processes and signals are unknown, never gone, if a process cannot be read", async () => {
  await using folder = await temporaryFolder();
  const proc = folder.path;
  mkdirSync(join(proc, "sys/kernel/random"), { recursive: true });
  writeFileSync(join(proc, "sys/kernel/random/boot_id"), "boot\n");
  writeProcess(proc, 1_000_001, 7);
  const other = writeProcess(proc, 1_000_002, 7);
  const identity = createLinuxIdentity(proc);
  const pids = (found: Awaited<ReturnType<typeof identity.members>>) =>
    found === "unknown" ? found : found.map(({ pid }) => pid);
  expect(pids(await identity.members(7))).toEqual([1_000_001, 1_000_002]);
  expect(pids(await identity.marked("MARK=x"))).toEqual([1_000_001, 1_000_002]);

  // Reading a folder fails with EISDIR, which means neither "no such process" nor "process of another user".
  rmSync(join(other, "environ"));
  mkdirSync(join(other, "environ"));
  expect(await identity.marked("MARK=x")).toBe("unknown");
  rmSync(join(other, "stat"));
  mkdirSync(join(other, "stat"));
  expect(await identity.members(7)).toBe("unknown");
  expect(await killIfSame(identity, { pid: 1_000_002, startTime: "boot:77" })).toBe("unknown");
  rmSync(other, { recursive: true });
  expect(pids(await identity.members(7))).toEqual([1_000_001]);
  expect(await killIfSame(identity, { pid: 1_000_002, startTime: "boot:77" })).toBe("not running");
});
