/** The agent's own name in its Lease: kept with the state, so that a restart is the same holder and another machine is not. */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode, writeFileAtomic } from "../../src/util/atomic-file.ts";

export interface InstanceId {
  readonly id: string;
  /** The state folder came from another machine, by a migration, a restored backup or a disk image; the id is new. */
  readonly wasCopied: boolean;
}

/** Made on first use. Where this machine's id cannot be read, the id on disk counts as its own. */
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
