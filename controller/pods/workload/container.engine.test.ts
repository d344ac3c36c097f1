/**
 * The very container of a llamacpp service and its preStop, with the real llama-server in the place of the image.
 * CPU: real engines generate answers while they are drained.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { offloadedLayers } from "../../../src/engines/llamacpp/pod.ts";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import { runLlamaServer } from "../../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { SEND_FIRST_TERM, STOP_SECONDS, WITHDRAWAL_SECONDS } from "./drain.ts";
import { inputOf } from "./fixtures/workload-input.ts";
import { buildWorkload } from "./workload.ts";

const program = findLlamaServer() ?? "";
const KEY = "a-key-of-clients";
const WAIT = { timeout: 60_000, interval: 50 };
const template = "{% for message in messages %}$(HOME){{ message.content }}{% endfor %}";

/** The container of a service, what its volumes hold, and its engine. */
async function serve(folder: string, drainSeconds: number) {
  const port = await freePort();
  const model = path.join(folder, "models");
  mkdirSync(path.join(folder, "auth"));
  mkdirSync(path.join(folder, "chat"));
  mkdirSync(path.join(folder, "slots"));
  mkdirSync(model);
  await writeTinyGguf(path.join(model, "tiny.gguf"));
  writeFileSync(path.join(folder, "auth", "api-key"), `# of team a\n${KEY}\n`);
  const input = inputOf({
    service: {
      contextSize: 65_536,
      auth: { secretRef: { name: "keys" } },
      chatTemplate: template,
      slotSaveRestore: true,
      containerPort: port,
      bindAddress: "127.0.0.1",
      rollout: { drainSeconds },
      extraArgs: ["--threads", "1"],
    },
    model: { source: "hf://org/tiny", hardware: { accelerator: "cpu" } },
    weights: { claimName: "cache", folder: "k", file: "tiny.gguf" },
    replicas: 1,
  });
  const { deployment } = buildWorkload(input);
  const { containers, volumes = [] } = deployment.spec.template.spec;
  const fields = deployment.spec.template.metadata?.annotations ?? {};
  writeFileSync(path.join(folder, "chat", "template.jinja"), fields["metalbridge.dev/chat-template"] ?? "");
  const [container] = containers;
  if (container === undefined) throw new Error("no container");
  expect(volumes.map(({ name }) => name)).toEqual(["weights-0", "tmp", "slots", "chat-template", "api-key"]);
  const engine = start(container, folder);
  const url = `http://127.0.0.1:${port}`;
  await vi.waitFor(async () => expect((await fetch(`${url}/health`)).status).toBe(200), WAIT);
  // Before its folder, into which it writes.
  const stop = async () => {
    const closed = once(engine, "close");
    if (engine.kill("SIGKILL")) await closed;
  };
  return { container, engine, url, [Symbol.asyncDispose]: stop };
}

/** Mounts by their paths, as a kubelet has them. */
const inFolder = (text: string, folder: string) =>
  text.replaceAll("/etc/metalbridge/", `${folder}/`).replace(/^\/(models|slots)/, `${folder}/$1`);

function start({ args = [], env = [] }: Container, folder: string): ChildProcess {
  const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const given = args.map((text) => inFolder(text.replaceAll("$$(", "$("), folder));
  const child = spawn(program, given, {
    env: { ...variables, HOME: folder },
    stdio: ["ignore", "ignore", "pipe"],
  });
  child.stderr?.on("data", (chunk: Buffer) => appendFileSync(path.join(folder, "log"), chunk));
  return child;
}

/** Runs it with nothing on PATH but what images have, and one of the programs that fetch. */
function preStop(
  { lifecycle }: Container,
  { folder, fetcher, engine }: { folder: string; fetcher: string; engine: ChildProcess },
): ChildProcess {
  const { exec } = (lifecycle as { preStop: { exec: { command: string[] } } }).preStop;
  const bin = path.join(folder, "bin");
  mkdirSync(bin);
  for (const name of ["date", "grep", "head", "sleep"]) symlinkSync(`/bin/${name}`, path.join(bin, name));
  const wrapper = path.join(bin, fetcher);
  writeFileSync(
    wrapper,
    `#!/bin/sh\necho asked >>'${folder}/asked'\nPATH=${process.env.PATH} exec ${fetcher} "$@"\n`,
  );
  chmodSync(wrapper, 0o755);
  const [shell = "", ...rest] = exec.command.map((text) =>
    // Here process 1 is that of the whole machine.
    text
      .replaceAll("/etc/metalbridge/", `${folder}/`)
      .replace(SEND_FIRST_TERM, SEND_FIRST_TERM.replace("1 ", `${engine.pid} `)),
  );
  // A proxy that is not there: requests to the engine must not go there.
  const env = { PATH: bin, http_proxy: "http://127.0.0.1:9" };
  const child = spawn(shell, rest, { env, stdio: ["ignore", "ignore", "inherit"] });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

const asked = (folder: string) =>
  existsSync(path.join(folder, "asked"))
    ? readFileSync(path.join(folder, "asked"), "utf8").split("\n").length - 1
    : 0;

/** A generation that lasts until it is aborted; resolves with its first bytes. */
async function generate(url: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ prompt: "a", max_tokens: 60_000, stream: true, ignore_eos: true }),
    signal,
  });
  expect(response.status).toBe(200);
  const reader = response.body?.getReader();
  await reader?.read();
  // A client that reads nothing more is given up by the engine, and one that reads fast has its answer too soon.
  const reading = setInterval(() => void reader?.read().catch(() => clearInterval(reading)), 150);
  signal.addEventListener("abort", () => clearInterval(reading), { once: true });
}

describe.skipIf(program === "")("the container of a llamacpp service", () => {
  test("a build that finds no GPU reports that in the lines that the controller reads", async () => {
    await using folder = await temporaryFolder();
    const model = path.join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    await using server = await runLlamaServer(program, ["-m", model, "--n-gpu-layers", "all", "--no-warmup"]);
    expect(offloadedLayers(server.log())).toEqual({ layers: "none" });
    const rest = server.log().split("\n").slice(1);
    expect(offloadedLayers(rest.join("\n"))).toEqual({ layers: "all" });
    expect(offloadedLayers(rest.slice(4).join("\n"))).toBeUndefined();
    expect(offloadedLayers("load_tensors: offloaded 0/33 layers to GPU")).toMatchObject({
      layers: "none",
      count: "0 of 33 layers",
    });
  });

  test.each(["curl", "python3", "wget"])(
    "serves with keys and template, and its preStop waits for the request in flight (by %s)",
    async (fetcher) => {
      await using folder = await temporaryFolder();
      await using served = await serve(folder.path, 60);
      const { container, url, engine } = served;
      expect((await fetch(`${url}/metrics`)).status).toBe(401);
      const props = await fetch(`${url}/props`, { headers: { authorization: `Bearer ${KEY}` } });
      expect(await props.json()).toMatchObject({ chat_template: template });
      const client = new AbortController();
      await generate(url, client.signal);
      const hook = preStop(container, { folder: folder.path, fetcher, engine });
      const ended = once(hook, "close");
      // Two readings of an idle engine would have been the last.
      await vi.waitFor(() => expect(asked(folder.path)).toBeGreaterThan(2), WAIT);
      expect(hook.exitCode).toBeNull();
      client.abort();
      expect(await ended).toEqual([0, null]);
    },
  );

  test("the preStop ends after drainSeconds although a request is in flight, and the engine at the kubelet's TERM", async () => {
    await using folder = await temporaryFolder();
    await using served = await serve(folder.path, 5);
    const { container, url, engine } = served;
    const client = new AbortController();
    await generate(url, client.signal);
    const startedMs = performance.now();
    const closed = once(engine, "close").then(() => performance.now() - startedMs);
    const hook = preStop(container, { folder: folder.path, fetcher: "curl", engine });
    expect(await once(hook, "close")).toEqual([0, null]);
    expect(asked(folder.path)).toBeGreaterThan(0);
    // With a client that has read all, it may have exited at the hook's own TERM.
    expect([null, 0]).toContain(engine.exitCode);
    engine.kill("SIGTERM");
    // Before the end of the grace period, with the client still there.
    const late = AbortSignal.timeout((STOP_SECONDS * 1_000) / 1.5);
    const log = () => readFileSync(path.join(folder.path, "log"), "utf8").slice(-2_000);
    const isLate = once(late, "abort").then(() => Promise.reject(new Error(`it still runs: ${log()}`)));
    // And not before the withdrawal and drainSeconds have elapsed, which the hook counts in whole seconds.
    expect(await Promise.race([closed, isLate])).toBeGreaterThan((WITHDRAWAL_SECONDS + 5 - 1) * 1_000);
    client.abort();
  });
});
