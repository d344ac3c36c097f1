/** Removes models that the agent created in Ollama's folder, and that stayed because no server ran when their replica ended. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isOwnModel } from "../../../src/engines/contract/shared-daemon.ts";
import type { RunSerialized } from "../../../src/util/serializer.ts";
import type { SweepModels } from "../../instances/daemon/daemons.ts";
import { type Address, sendEngineRequest } from "../driver/http.ts";

/** The folder in which Ollama puts models without a registry. */
const LIBRARY = join("manifests", "registry.ollama.ai", "library");
const DELETE_MS = 30_000;

export interface SweepOptions {
  /** The folder OLLAMA_MODELS of the servers that the agent starts. */
  readonly models: string;
  /** Runs a server while the work runs: Ollama alone knows which blobs other models share. */
  readonly during: (work: (address: Address) => Promise<void>) => Promise<void>;
  /** Also serializes the creation of models. */
  readonly inTurn: RunSerialized;
}

/** Starts no server if there is no model to remove. */
export function createModelSweep({ models, during, inTurn }: SweepOptions): SweepModels {
  return async (isNamed) => {
    const unused = (await ownModels(models)).filter((model) => !isNamed(model));
    if (unused.length === 0) return;
    await during(async (address) => {
      for (const model of unused)
        await inTurn(async () => {
          // A replica may have started to use the model meanwhile.
          if (!isNamed(model)) await deleteModel(address, model);
        });
    });
  };
}

/** Rejects unless the model no longer exists. */
export async function deleteModel(address: Address, model: string): Promise<void> {
  const request = { path: "/api/delete", method: "DELETE", body: { model }, timeoutMs: DELETE_MS } as const;
  const answer = await sendEngineRequest({ ...address, ...request });
  if ("failed" in answer) throw new Error(`cannot delete ${model}: ${answer.failed}`);
  if (answer.status !== 200 && answer.status !== 404)
    throw new Error(`Ollama answered the deletion of ${model} with HTTP ${answer.status}`);
}

async function ownModels(models: string): Promise<readonly string[]> {
  const names = await readdir(join(models, LIBRARY)).catch(() => []);
  const tags = names.filter(isOwnModel).map(async (name) => {
    const found = await readdir(join(models, LIBRARY, name)).catch(() => []);
    return found.map((tag) => `${name}:${tag}`);
  });
  return (await Promise.all(tags)).flat();
}
