import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { silentLog, startStore } from "../agent/store/fixtures/store.ts";
import type { CommandPorts } from "../agent/store-maintenance/commands.ts";
import { serveModelCommands } from "../agent/store-maintenance/socket.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { ggufBytes, type Origin, sha256, startOrigin } from "../test/fixtures/origin.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const content = ggufBytes(300_000);

/** A state folder with a store, and what the agent of it listens with once `serve` was called. */
async function startHost() {
  const folder = await temporaryFolder();
  const stateDir = folder.path;
  const dir = path.join(stateDir, "models");
  mkdirSync(dir);
  const at = await startStore();
  const end = new AbortController();
  const damaged: string[] = [];
  const serve = async (more: Partial<CommandPorts> = {}) => {
    const store = await at.reopen({ dir });
    await serveModelCommands({
      stateDir,
      tempDir: folder.path,
      log: silentLog,
      signal: end.signal,
      store,
      replicas: () => [{ uid: "u1", namespace: "team", name: "chat-0" }],
      hostName: "mac-1",
      mayRemove: () => true,
      onDamaged: ({ file }) => damaged.push(file),
      ...more,
    });
    return store;
  };
  return {
    dir,
    damaged,
    serve,
    models: (...args: string[]) => runVerb(["models", ...args, "--state-dir", stateDir]),
    start: (...args: string[]) => startProgram(["models", ...args, "--state-dir", stateDir]),
    [Symbol.asyncDispose]: async () => {
      end.abort();
      await at[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

function flipOneBit(dir: string): void {
  const blob = path.join(dir, "blobs/sha256", sha256(content));
  const bytes = readFileSync(blob);
  bytes[150_000] = (bytes[150_000] ?? 0) ^ 1;
  chmodSync(blob, 0o600);
  writeFileSync(blob, bytes);
}

function serveModel(origin: Origin): string {
  origin.serve("/tiny.gguf", content);
  return `${origin.url}/tiny.gguf`;
}

test("a model is pulled, listed, pinned, and refused while it is pinned, through the agent", async () => {
  await using origin = await startOrigin();
  await using host = await startHost();
  const source = serveModel(origin);
  const store = await host.serve();
  const pulled = { code: 0, stderr: "", stdout: `pulled ${source} (0.3 MiB)\n` };
  expect(await host.models("pull", source)).toEqual(pulled);
  expect(await host.models("pin", source)).toMatchObject({ code: 0, stdout: `pinned ${source}\n` });
  expect((await host.models("list")).stdout).toMatch(
    /^MODEL +SIZE +LAST USED +VERIFIED +STATE\n.*tiny\.gguf +0\.3 MiB +.*ago +pinned\n$/,
  );
  const refused = { code: 1, stderr: expect.stringContaining("ModelPinned") };
  expect(await host.models("rm", source)).toMatchObject(refused);
  await store.unpin(source);
  const cleaned = await host.models("gc");
  expect(cleaned.stdout).toMatch(/^removed .*tiny\.gguf\n1 models removed, 0\.3 MiB\n$/);
});

test("verify finds bit rot, reports it to the agent, and fails with a table", async () => {
  await using origin = await startOrigin();
  await using host = await startHost();
  const source = serveModel(origin);
  const store = await host.serve();
  await store.fetch({ source }, { signal: new AbortController().signal });
  flipOneBit(host.dir);
  const found = await host.models("verify", source);
  expect(found).toMatchObject({ code: 1, stdout: expect.stringMatching(/\ndamaged +0\.3 MiB +tiny\.gguf/) });
  expect(host.damaged).toEqual(["tiny.gguf"]);
  expect(await store.list()).toMatchObject([{ damaged: true }]);
});

test("without an agent the store can be read, and what changes it says that it needs one", async () => {
  await using origin = await startOrigin();
  await using host = await startHost();
  const source = serveModel(origin);
  {
    await using at = await startStore({ dir: host.dir });
    await at.store.fetch({ source }, { signal: new AbortController().signal });
  }
  const listed = await host.models("list");
  expect(listed).toMatchObject({ code: 0, stdout: expect.stringContaining("tiny.gguf") });
  expect(listed.stderr).toContain("no agent is running on");
  flipOneBit(host.dir);
  expect(await host.models("verify")).toMatchObject({ code: 1, stdout: expect.stringContaining("damaged") });
  const refused = { code: 1, stderr: expect.stringContaining("AgentNotRunning") };
  expect(await host.models("rm", source)).toMatchObject(refused);
});
