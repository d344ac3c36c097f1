/** ollama:// sources on the real Ollama, which pulls from a registry on loopback. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { isLiving, pidIn, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { launchOf, untilState } from "../../../test/fixtures/driver-agent.ts";
import { ollama, ollamaAgent, startRegistry, tinyModel } from "../../../test/fixtures/ollama.ts";
import type { ModelRequest } from "../../store/types.ts";
import type { EngineFetcher } from "../driver/engine.ts";

const SOURCE = "ollama://tiny:latest";
const never = new AbortController().signal;
const wanted = (source: string, more: Partial<ModelRequest> = {}): ModelRequest => ({ source, ...more });

describe.skipIf(ollama === undefined)("a source that Ollama pulls", () => {
  test("a source that Ollama pulls is pulled once with its progress, found on disk without a server, and loaded with the service's settings", async () => {
    await using folder = runFolder();
    const gguf = await tinyModel(folder);
    await using registry = await startRegistry("tiny", readFileSync(gguf.path));
    const { driver, placeOf } = ollamaAgent(folder, { registry: registry.url });
    const fetcher = fetcherOf(driver);
    expect(fetcher.takes(SOURCE)).toBe(true);
    expect(fetcher.takes("hf://org/repo")).toBe(false);
    expect(await fetcher.resolve(wanted(SOURCE))).toBeUndefined();
    const seen: number[] = [];
    const pulled = await fetcher.fetch(wanted(SOURCE), {
      signal: never,
      onProgress: ({ bytes }) => seen.push(bytes),
    });
    expect(pulled).toMatchObject({ sha256: gguf.sha256, sizeBytes: gguf.sizeBytes });
    expect(seen.at(-1)).toBeGreaterThanOrEqual(gguf.sizeBytes);
    await registry[Symbol.asyncDispose]();
    expect(await fetcher.resolve(wanted(SOURCE))).toEqual(pulled);
    expect(await fetcher.fetch(wanted(SOURCE), { signal: never })).toEqual(pulled);

    const instance = await driver.open(placeOf("a"), launchOf(pulled, {}, SOURCE));
    await untilState(instance, "running");
    expect(await driver.probeRequest({ ...instance.target, mode: "chat" })).toBe("ok");
    // What was pulled stays for the next start; what was made of it does not.
    instance.stopBy(performance.now() + 10_000);
    await untilState(instance, "gone");
    expect(await fetcher.resolve(wanted(SOURCE))).toEqual(pulled);
  });

  test("a pull of a source that does not exist, or whose registry does not answer, fails with that reason", async () => {
    await using models = runFolder();
    await using registry = await startRegistry("tiny", readFileSync((await tinyModel(models)).path));
    // A folder of its own each: none must find the server that the one before is stopping.
    const fetch = async (source: string, url: string) => {
      await using folder = runFolder();
      const { driver } = ollamaAgent(folder, { registry: url });
      return await fetcherOf(driver).fetch(wanted(source), { signal: never });
    };
    await expect(fetch("ollama://tiny:7b", registry.url)).rejects.toMatchObject({ code: "SourceNotFound" });
    await expect(fetch(SOURCE, "http://127.0.0.1:9")).rejects.toMatchObject({ code: "SourceUnreachable" });
    await expect(fetch("ollama://a/b/c/d:x", registry.url)).rejects.toMatchObject({ code: "SourceInvalid" });
  });

  test("a pull without progress is aborted, although Ollama repeats its status all the time, and resumed later", async () => {
    await using folder = runFolder();
    const gguf = await tinyModel(folder);
    await using registry = await startRegistry("tiny", readFileSync(gguf.path));
    registry.onBlob = (_, send) => {
      send(1_000);
      return true;
    };
    const { driver } = ollamaAgent(folder, { registry: registry.url }, { stallMs: 1_000 });
    await expect(fetcherOf(driver).fetch(wanted(SOURCE), { signal: never })).rejects.toMatchObject({
      code: "SourceStalled",
    });
    registry.onBlob = () => false;
    // The next agent on this folder must not find the server that the first one is stopping.
    // Its shim is the last to go.
    const session = readFileSync(join(folder.root, "daemons", "ollama-pull", "session"), "utf8");
    const shim = Number.parseInt(session, 10);
    await vi.waitFor(() => expect(isLiving(shim)).toBe(false), { timeout: 60_000 });
    const patient = ollamaAgent(folder, { registry: registry.url }).driver;
    const again = await fetcherOf(patient).fetch(wanted(SOURCE), { signal: never });
    expect(again).toMatchObject({ sha256: gguf.sha256 });
  });

  test("a pull is rejected before the download if the disk has no room in addition to its reserve", async () => {
    await using folder = runFolder();
    await using registry = await startRegistry("tiny", readFileSync((await tinyModel(folder)).path));
    registry.onBlob = (_, send) => {
      send(1_000);
      return true;
    };
    const { driver } = ollamaAgent(folder, { registry: registry.url }, { reserveBytes: 2 ** 50 });
    await expect(fetcherOf(driver).fetch(wanted(SOURCE), { signal: never })).rejects.toMatchObject({
      code: "DiskFull",
      message: expect.stringMatching(
        /^ollama:\/\/library\/tiny:latest needs .* more; .*of which 1024 TiB are reserved$/,
      ),
      remedy: { summary: expect.stringMatching(/\S+ \S+/) },
    });
  });

  test("a source is pulled although a killed server left an empty record of a part", async () => {
    await using folder = runFolder();
    const gguf = await tinyModel(folder);
    await using registry = await startRegistry("tiny", readFileSync(gguf.path));
    const blobs = join(folder.root, "ollama", "models", "blobs");
    mkdirSync(blobs, { recursive: true });
    for (const part of ["partial", "partial-0", "partial-1"])
      writeFileSync(join(blobs, `sha256-${gguf.sha256}-${part}`), "");
    const { driver } = ollamaAgent(folder, { registry: registry.url });
    const pulled = await fetcherOf(driver).fetch(wanted(SOURCE), { signal: never });
    expect(pulled).toMatchObject({ sha256: gguf.sha256 });
  });

  test("a pull is aborted when its replica no longer needs it, or its server is killed", async () => {
    await using folder = runFolder();
    await using registry = await startRegistry("tiny", readFileSync((await tinyModel(folder)).path));
    const { driver } = ollamaAgent(folder, { registry: registry.url });
    const asked = vi.fn();
    registry.onBlob = (_, send) => {
      send(1_000);
      asked();
      return true;
    };
    const unwanted = new AbortController();
    const first = fetcherOf(driver).fetch(wanted(SOURCE), { signal: unwanted.signal });
    await vi.waitFor(() => expect(asked).toHaveBeenCalled(), { timeout: 60_000 });
    unwanted.abort(new Error("not wanted"));
    await expect(first).rejects.toThrow("not wanted");
    asked.mockClear();
    const second = fetcherOf(driver).fetch(wanted(SOURCE), { signal: never });
    second.catch(() => undefined);
    await vi.waitFor(() => expect(asked).toHaveBeenCalled(), { timeout: 60_000 });
    process.kill(pidIn(join(folder.root, "daemons", "ollama-pull")), "SIGKILL");
    await expect(second).rejects.toMatchObject({ code: "SourceUnavailable" });
  });
});

function fetcherOf({ fetcher }: { readonly fetcher?: EngineFetcher }): EngineFetcher {
  if (fetcher === undefined) throw new Error("the driver fetches nothing");
  return fetcher;
}
