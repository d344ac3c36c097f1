/** The very container of an Ollama service and its probes, with the real Ollama in the place of the image. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from "node:fs";
import path from "node:path";
import { describe, expect, test, vi } from "vitest";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { ollama, startRegistry } from "../../../test/fixtures/ollama.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { POD_USER } from "./contract.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { buildWorkload } from "./workload.ts";

const IS_ROOT = process.getuid?.() === 0;
const WAIT = { timeout: 60_000, interval: 100 };

/** What the kubelet does with a container: its command, environment and mounts. */
async function containerIn(folder: string, options: Partial<WorkloadOptions> & { service?: object }) {
  const port = await freePort();
  const { deployment } = buildWorkload(
    inputOf({
      runtime: "ollama",
      model: { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } },
      ...options,
      service: { ...options.service, containerPort: port, bindAddress: "127.0.0.1" },
    }),
  );
  const [container] = deployment.spec.template.spec.containers;
  if (container === undefined) throw new Error("no container");
  return { container, url: `http://127.0.0.1:${port}`, ...runnerOf(container, folder) };
}

function runnerOf(
  { command = [], args = [], env = [], readinessProbe, livenessProbe }: Container,
  folder: string,
) {
  const bin = path.join(folder, "bin");
  const tmp = path.join(folder, "tmp");
  mkdirSync(tmp, { recursive: true });
  if (IS_ROOT) for (const one of [folder, tmp]) chownSync(one, POD_USER, POD_USER);
  mkdirSync(bin, { recursive: true });
  if (IS_ROOT) copyFileSync(ollama ?? "", path.join(bin, "ollama"));
  else symlinkSync(ollama ?? "", path.join(bin, "ollama"));
  const inFolder = (text: string) => text.replaceAll("$$(", "$(").replace(/^\/(models|tmp)/, `${folder}/$1`);
  const variables = Object.fromEntries(env.map(({ name, value = "" }) => [name, inFolder(String(value))]));
  const run = (words: readonly string[]) => {
    const [program = "", ...rest] = words.map(inFolder);
    // A group of its own: a container ends with all its processes.
    const child = spawn(program, rest, {
      env: { ...variables, PATH: `${bin}:/usr/bin:/bin` },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      // As in a pod. Root could also write without the right to.
      ...(IS_ROOT ? { uid: POD_USER, gid: POD_USER } : {}),
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => appendFileSync(path.join(folder, "log"), chunk));
    return child;
  };
  const probe = async (one: Container["readinessProbe"]) => {
    const { command: words } = (one as unknown as { exec: { command: string[] } }).exec;
    const [code] = await once(run(words), "close");
    return code === 0;
  };
  const start = () => {
    const child = run([...command, ...args]);
    const closed = once(child, "close") as Promise<[number | null]>;
    const end = async () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
      await closed;
    };
    return { child, closed, [Symbol.asyncDispose]: end };
  };
  const log = () => readFileSync(path.join(folder, "log"), "utf8");
  return { start, log, isReady: () => probe(readinessProbe), isAlive: () => probe(livenessProbe) };
}

async function answerOf(url: string, model: string): Promise<unknown> {
  const body = JSON.stringify({ model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", body });
  return { status: response.status, ...((await response.json()) as object) };
}

async function loadedModels(url: string): Promise<object[]> {
  return ((await (await fetch(`${url}/api/ps`)).json()) as { models: object[] }).models;
}

describe.skipIf(ollama === undefined)("the container of an Ollama service", () => {
  test("serves the GGUF of its volume without a copy, under all names of the service, and again after a restart", async () => {
    await using folder = await temporaryFolder();
    mkdirSync(path.join(folder.path, "models"));
    await writeTinyGguf(path.join(folder.path, "models", "tiny.gguf"));
    const { url, start, isReady, isAlive } = await containerIn(folder.path, {
      service: { contextSize: 1024, parallelSlots: 2, endpoint: { modelNames: [{ name: "gpt-4o" }] } },
      weights: { claimName: "cache", folder: "k", file: "tiny.gguf" },
    });
    expect(await isReady()).toBe(false);
    expect(await isAlive()).toBe(false);
    {
      await using running = start();
      await vi.waitFor(async () => expect(await isReady()).toBe(true), WAIT);
      expect(await isAlive()).toBe(true);
      for (const model of ["chat", "team-a/chat", "gpt-4o"])
        expect(await answerOf(url, model)).toMatchObject({ status: 200, object: "chat.completion" });
      expect(await answerOf(url, "other")).toMatchObject({ status: 404 });
      const shown = await fetch(`${url}/api/show`, { method: "POST", body: '{"model":"chat"}' });
      expect(await shown.json()).toMatchObject({ parameters: expect.stringMatching(/num_ctx +512/) });
      const blobs = path.join(folder.path, "tmp/ollama/models/blobs");
      const linked = readdirSync(blobs, { withFileTypes: true }).filter((one) => one.isSymbolicLink());
      expect(linked.map(({ name }) => readlinkSync(path.join(blobs, name)))).toEqual([
        path.join(folder.path, "models", "tiny.gguf"),
      ]);
      for (const [method, api, body] of [
        ["DELETE", "delete", { model: "chat" }],
        ["POST", "copy", { source: "chat", destination: "mine" }],
        ["POST", "create", { model: "mine", from: "chat" }],
      ] as const) {
        const answer = await fetch(`${url}/api/${api}`, { method, body: JSON.stringify(body) });
        expect(await answer.text(), api).toMatch(/permission denied/);
      }
      expect(await answerOf(url, "chat")).toMatchObject({ status: 200 });
      running.child.kill("SIGTERM");
      expect(await running.closed).toEqual([0, null]);
    }
    await using _again = start();
    await vi.waitFor(async () => expect(await isReady()).toBe(true), WAIT);
    expect(await answerOf(url, "chat")).toMatchObject({ status: 200 });
  });

  test("pulls a model of the registry that the controller names, and is ready once that is loaded", async () => {
    await using folder = await temporaryFolder();
    const gguf = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(gguf);
    await using registry = await startRegistry("tiny", readFileSync(gguf));
    const { url, start, isReady } = await containerIn(folder.path, {
      model: { source: "ollama://tiny", hardware: { accelerator: "cpu" } },
      settings: { fetch: { ollamaRegistry: registry.url } as never },
    });
    await using _running = start();
    await vi.waitFor(async () => expect(await isReady()).toBe(true), WAIT);
    expect(await answerOf(url, "chat")).toMatchObject({ status: 200 });
    // A client unloads the model, which no gate prevents: no traffic until it is loaded again.
    await (
      await fetch(`${url}/api/generate`, { method: "POST", body: '{"model":"chat","keep_alive":0}' })
    ).text();
    await vi.waitFor(async () => expect(await loadedModels(url)).toEqual([]), WAIT);
    expect(await isReady()).toBe(false);
  });

  test("fails with the cause if the registry has no such model", async () => {
    await using folder = await temporaryFolder();
    await using registry = await startRegistry("tiny", Buffer.from("x"));
    const { start, log } = await containerIn(folder.path, {
      model: { source: "ollama://absent", hardware: { accelerator: "cpu" } },
      settings: { fetch: { ollamaRegistry: registry.url } as never },
    });
    await using running = start();
    expect(await running.closed).toEqual([1, null]);
    expect(log()).toMatch(/ollama: \/api\/pull: \{"error":"pull model manifest: file does not exist"\}/);
  });
});
