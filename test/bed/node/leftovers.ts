/** Removes control groups and folders that nodes of killed runs left; their processes are gone with their network. */
import { readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { isAbandoned } from "../network.ts";
import { listCgroups, removeCgroups } from "./cgroups.ts";

export async function removeNodeLeftovers(): Promise<void> {
  const names = new Set([...listCgroups(), ...readdirSync(tmpdir())]);
  for (const name of names) {
    if (!isAbandoned(name)) continue;
    await removeCgroups(name);
    rmSync(path.join(tmpdir(), name), { recursive: true, force: true });
  }
}
