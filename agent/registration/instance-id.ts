/** The agent's identity in its Lease. It is saved with the state, so that a restarted agent is the same holder and another machine is not. */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode, writeFileAtomic } from "../../src/util/atomic-file.ts";

export interface InstanceId {
  readonly id: string;
  /** The state folder was copied from another machine (migration, restored backup, disk image), so the id is new. */
  readonly wasCopied: boolean;
}

/** Created on first use. If this machine's id cannot be read, the id on disk counts as its own. */
export async function readInstanceId(stateDir: string, machineId: string | undefined): Promise<InstanceId> {
  const path = join(stateDir, "instance-id");
  const known = await readKnown(path);
  const wasCopied =
    known?.machineId !== undefined && machineId !== undefined && known.machineId !== machineId;
  const id = known === undefined || wasCopied ? randomUUID() : known.id;
  const machine = machineId ?? known?.machineId;
  if (id !== known?.id || machine !== known.machineId)
    await writeFileAtomic(path, `${machine === undefined ? id : `${id} ${machine}`}\n`);
  return { id, wasCopied };
}

async function readKnown(path: string): Promise<{ id: string; machineId?: string | undefined } | undefined> {
  try {
    const [, id, machineId] =
      /^([0-9a-f-]{36})(?: (\S+))?$/.exec((await readFile(path, "utf8")).trim()) ?? [];
    return id === undefined ? undefined : { id, machineId };
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}
