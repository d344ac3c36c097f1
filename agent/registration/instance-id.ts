/** The agent's own name in its Lease: kept with the state, so that a restart is the same holder and a twin is another. */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode, writeFileAtomic } from "../store/atomic.ts";

/** Made on first use. */
export async function readInstanceId(stateDir: string): Promise<string> {
  const path = join(stateDir, "instance-id");
  try {
    const known = (await readFile(path, "utf8")).trim();
    if (/^[0-9a-f-]{36}$/.test(known)) return known;
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
  const made = randomUUID();
  await writeFileAtomic(path, `${made}\n`);
  return made;
}
