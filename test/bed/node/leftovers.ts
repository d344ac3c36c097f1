/** What the nodes of killed runs left: their processes are gone with their network. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { listCgroups, removeCgroups } from "./cgroups.ts";

/** As in the name of a station's namespace, with the process that made it. */
const NAME = /^mbtest-\d+-(\d+)-/;

export async function removeNodeLeftovers(): Promise<void> {
  const names = new Set([...listCgroups(), ...readdirSync(tmpdir())]);
  for (const name of names) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    await removeCgroups(name);
    rmSync(path.join(tmpdir(), name), { recursive: true, force: true });
  }
}
