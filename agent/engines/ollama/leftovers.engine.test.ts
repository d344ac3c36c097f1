/** What a real Ollama keeps on disk of models whose server was down when their replica ended. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { pidIn, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { launchOf, untilState } from "../../../test/fixtures/driver-agent.ts";
import { ollama, ollamaAgent, tinyModel } from "../../../test/fixtures/ollama.ts";
import type { EngineTarget } from "../driver/engine.ts";

const chat = (target: object): EngineTarget => ({ ...(target as EngineTarget), mode: "chat" });
const SOON = { timeout: 60_000, interval: 20 };

describe.skipIf(ollama === undefined)("a real Ollama", () => {
  test("only models that stayed on disk because their server was down are removed", async () => {
    await using folder = runFolder();
    const first = ollamaAgent(folder);
    const model = await tinyModel(folder);
    const stale = await first.driver.open(first.placeOf("a"), launchOf(model));
    const other = await tinyModel(folder, "other", 2);
    const kept = await first.driver.open(first.placeOf("b"), launchOf(other));
    await untilState(stale, "running");
    await untilState(kept, "running");
    const models = join(folder.root, "ollama", "models");
    const library = join(models, "manifests", "registry.ollama.ai", "library");
    expect(readdirSync(library)).toHaveLength(2);
    const [daemon = ""] = readdirSync(join(folder.root, "daemons"));
    process.kill(pidIn(join(folder.root, "daemons", daemon)), "SIGKILL");
    for (const instance of [stale, kept]) {
      await untilState(instance, "ended");
      instance.killNow();
      await untilState(instance, "gone");
      instance.close();
    }
    const after = ollamaAgent(folder);
    const again = await after.driver.open(after.placeOf("b"), launchOf(other));
    await untilState(again, "running");
    await after.instances.daemons.stopUnused(() => true);
    // Ollama removes the manifest first.
    await vi.waitFor(() => {
      expect(readdirSync(library)).toHaveLength(1);
      expect(readdirSync(join(models, "blobs"))).not.toContain(`sha256-${model.sha256}`);
    }, SOON);
    expect(await after.driver.probeRequest(chat(again.target))).toBe("ok");
  });
});
