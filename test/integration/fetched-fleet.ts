/** A system of one host whose model comes from a server, so that its size is known before anything is placed. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type System, startSystem } from "../bed/system.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startBadOrigin } from "./bad-origin.ts";

export interface FetchedFleet extends System {
  /** Source of a model that never ends an answer on its own. */
  readonly source: string;
}

export async function startFetchedFleet(): Promise<FetchedFleet> {
  await using stack = new AsyncDisposableStack();
  const origin = stack.use(await startBadOrigin(await endlessModel(), 0));
  const config = { disk: { reserve: 0 }, sources: { allowLoopback: true } };
  const system = stack.use(
    await startSystem({ pace: true, agents: [{ config }], controllerArgs: ["--allow-loopback"] }),
  );
  const kept = stack.move();
  return { ...system, source: `${origin.url}/good.gguf`, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function endlessModel(): Promise<Buffer> {
  const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-model-"));
  try {
    const file = path.join(dir, "endless.gguf");
    await writeTinyGguf(file, { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 });
    return readFileSync(file);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
