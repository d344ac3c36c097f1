/**
 * The commands of every day against a whole system: deploy, get, chat, bench, open, scale, top, delete.
 *
 * CPU: a whole system, and forty commands against it.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { benchmarkResultSchema } from "../../src/api/benchmark.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { runInTerminal } from "../cli/in-terminal.ts";
import { type ProgramEnd, runVerb, startProgram } from "../cli/program.ts";
import { sha256, startOrigin } from "../fixtures/origin.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

describeUnless(whyNoNodeNetwork(), "everyday commands", () => {
  let on: System;
  let file: string;

  beforeAll(async () => {
    const config = { disk: { reserve: 0 }, sources: { allowLoopback: true } };
    on = await startSystem({ agents: [{ config }], controllerArgs: ["--allow-loopback"] });
    file = path.join(on.farm.modelsDir, "Tiny_Q8.gguf");
    await writeTinyGguf(file);
    await on.services.untilHostsReady();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  const run = (...line: readonly string[]): Promise<ProgramEnd> =>
    runVerb(line, { kubeconfig: on.cluster.kubeconfig });

  it("prints the manifests that it would create", async () => {
    const { code, stdout } = await run("deploy", file, "--dry-run", "--context-size", "512");
    expect(code).toBe(0);
    expect(stdout).toBe(`apiVersion: metalbridge.dev/v1alpha1
kind: Model
metadata:
  name: tiny-q8
  namespace: default
spec:
  source: ${file}
---
apiVersion: metalbridge.dev/v1alpha1
kind: InferenceService
metadata:
  name: tiny-q8
  namespace: default
spec:
  modelRef: tiny-q8
  contextSize: 512
`);
  });

  it("shows the fit, and deploys nothing without a yes", async () => {
    const { code, stderr } = await run("deploy", file, "--context-size", "512");
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /tiny-q8 \(F32\) on llamacpp, 512 tokens in 1 slot[\s\S]*fits on 1 of 1 hosts[\s\S]*NotConfirmed/,
    );
    expect(await run("get", "services", "tiny-q8")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("ServiceNotFound"),
    });
  });

  it("deploys and follows the service until it is Ready", async () => {
    const end = await run(
      "deploy",
      file,
      "--yes",
      "--context-size",
      "512",
      "--slots",
      "2",
      "--timeout",
      "60s",
    );
    expect(end).toMatchObject({ code: 0, stdout: "service tiny-q8 is created\n" });
    expect(end.stderr).toMatch(/service tiny-q8 +Ready\n.*metalbridge chat tiny-q8\n$/);
    const again = await run("deploy", file, "--yes");
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("ServiceExists") });
  });

  it("lists objects in the columns of kubectl", async () => {
    const kubectl = await on.farm.kubectl(["get", "isvc", "-o", "wide"]);
    const wide = await run("get", "services", "-o", "wide");
    const columns = (text: string) => text.split("\n")[0]?.split(/ {2,}/);
    expect(columns(wide.stdout)).toEqual(columns(kubectl));
    expect((await run("get", "isvc", "-o", "name")).stdout).toBe(
      "inferenceservices.metalbridge.dev/tiny-q8\n",
    );
    expect((await run("get", "models", "-A")).stdout).toMatch(/^NAMESPACE +NAME[^\n]*\ndefault +tiny-q8 /);
    const { stdout } = await run("get", "hosts", on.farm.hostName, "-o", "json");
    expect(JSON.parse(stdout)).toMatchObject({ kind: "Host", metadata: { name: on.farm.hostName } });
  });

  it("asks a question and prints the answer as it comes", async () => {
    const end = await run("chat", "tiny-q8", "What is the sea?", "--max-tokens", "8");
    expect(end).toMatchObject({ code: 0, stderr: "" });
    expect(end.stdout.trim()).not.toBe("");
  });

  it("talks at a terminal: Ctrl-C ends the answer, then the conversation; Ctrl-D ends both", async () => {
    const { pid } = (await on.services.replicaOf("tiny-q8")).status;
    const open = () =>
      runInTerminal(["chat", "tiny-q8", "--max-tokens", "8"], { kubeconfig: on.cluster.kubeconfig });
    using one = open();
    using other = open();
    for (const chat of [one, other]) {
      await until(() => expect(chat.screen()).toMatch(/^tiny-q8: .*\n>$/));
      chat.pty.write("Hello?\r");
      await until(() => expect(chat.screen()).toMatch(/\n> Hello\?\n[^>][\s\S]*\n>$/));
    }
    // So that an answer lasts until it is interrupted.
    process.kill(pid, "SIGSTOP");
    try {
      for (const [chat, key] of [
        [one, "\u0003"],
        [other, "\u0004"],
      ] as const) {
        chat.pty.write("More?\r");
        await chat.shows(/More\?[\r\n]+$/);
        chat.pty.write(key);
      }
      await until(() => expect(one.screen()).toMatch(/\n> More\?\n+>$/));
      one.pty.write("\u0003");
      expect([await one.exitCode, await other.exitCode]).toEqual([0, 0]);
      expect(other.screen()).toMatch(/\n> More\?$/);
    } finally {
      spawnSync("kill", ["-CONT", String(pid)]);
    }
  });

  it("draws top at a terminal, again after each resize, without color, until Ctrl-C", async () => {
    using top = runInTerminal(["top"], { kubeconfig: on.cluster.kubeconfig, cols: 120 });
    const whole =
      /^https:.*q quits\n\nHOST .*\n[^\n]+ Ready .*\n\nSERVICE .*\ndefault\/tiny-q8 +Ready +1\/1 [^\n]*$/;
    await until(() => expect(top.screen()).toMatch(whole));
    top.resize(40, 6);
    await until(() => expect(top.screen()).toMatch(/^https:.{33}…\n\nHOST .{34}…\n.*\n… 3 more lines$/));
    top.resize(120, 24);
    await until(() => expect(top.screen()).toMatch(whole));
    top.pty.write("\u0003");
    expect(await top.exitCode).toBe(0);
    expect(top.screen()).toBe("");
    expect(top.output()).not.toMatch(/\[[\d;]*m/);
  });

  it("measures each number of clients", async () => {
    const sizes = ["--clients", "1,2", "--requests", "4", "--max-tokens", "4", "--prompt-words", "8"];
    const { code, stdout, stderr } = await run("bench", "tiny-q8", ...sizes, "-o", "json");
    expect(code, stderr).toBe(0);
    const levels = JSON.parse(stdout);
    expect(levels).toMatchObject([
      { concurrency: 1, requests: 4, failed: 0 },
      { concurrency: 2, requests: 4, failed: 0 },
    ]);
    for (const level of levels) {
      expect(level.tokensPerSecond).toBeGreaterThan(0);
      expect(level.timeToFirstTokenMs.p50).toBeGreaterThan(0);
      expect(level.timeToFirstTokenMs.p50).toBeLessThanOrEqual(level.latencyMs.p99);
    }
    const markdown = await run("bench", "tiny-q8", ...sizes, "-o", "markdown");
    expect(markdown.stdout).toMatch(/^\| clients \|[^\n]+\n\| ---[^\n]+\n\| 1 \| 4 \| 0 \|/);
  });

  it("writes the speed of a replica as a result, and overwrites no file", async () => {
    const written = path.join(on.farm.modelsDir, "result.json");
    const submit = ["bench", "tiny-q8", "--submit", written, "--device-class", "cpu-test"];
    const { code, stderr } = await run(...submit);
    expect(code, stderr).toBe(0);
    const result = benchmarkResultSchema.parse(JSON.parse(readFileSync(written, "utf8")));
    const identity = { model: file, deviceClass: "cpu-test", runtime: "llamacpp", tool: "requests" };
    expect(result).toMatchObject({ ...identity, settings: {} });
    expect(result.generation.samples).toHaveLength(5);
    // A prompt of 512 tokens does not fit into the context of this service.
    expect(result.prompt512).toBeUndefined();
    expect(await run(...submit)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("BenchSubmitFailed"),
    });
  });

  it("leads a local port to the engines, and follows changes until Ctrl-C", async () => {
    await using open = startProgram(["open", "tiny-q8", "--port", "0"], {
      kubeconfig: on.cluster.kubeconfig,
    });
    await using watch = startProgram(["get", "services", "-w"], { kubeconfig: on.cluster.kubeconfig });
    const url = await until(() => {
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(open.stderr())?.[0];
      expect(open.stderr()).toContain("1 ready endpoint");
      return found;
    });
    expect((await fetch(`${url}/health`)).status).toBe(200);
    await watch.until(/tiny-q8 +Ready/);
    expect(await run("scale", "tiny-q8", "0")).toMatchObject({
      code: 0,
      stdout: "service tiny-q8 is scaled from 1 to 0\n",
    });
    await watch.until(/\ntiny-q8 +Stopped/);
    await until(() => expect(open.stderr()).toContain("no endpoint is ready"));
    expect(await run("chat", "tiny-q8", "Hello?")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^NoReadyEndpoint: service tiny-q8 is Stopped/),
    });
    for (const { child, ended } of [open, watch]) {
      child.kill("SIGINT");
      expect((await ended).code).toBe(130);
    }
  });

  it("prints one screen of top where there is no terminal", async () => {
    const { code, stdout } = await run("top");
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`\\n${on.farm.hostName} +Ready +[░█▏▎▍▌▋▊▉]+ `));
    expect(stdout).toMatch(/\ndefault\/tiny-q8 +Stopped +0\/0 +Hosts +tiny-q8 /);
  });

  it("deletes the service with its Model, and says when it is gone", async () => {
    const { code, stdout } = await run("delete", "tiny-q8", "--with-model", "--yes", "--timeout", "60s");
    expect(code).toBe(0);
    expect(stdout).toMatch(/model tiny-q8 is deleted[\s\S]*service tiny-q8 is deleted\n$/);
    expect((await run("get", "models")).stderr).toContain("no models found");
  });

  /** A Model of a web server, with a Secret that the agent has to read. */
  async function applyPrefetched(source: string): Promise<void> {
    const named = (kind: string) => ({ kind, metadata: { name: "prefetched", namespace: "default" } });
    const spec = {
      source,
      sourceSecretRef: { name: "prefetched" },
      prefetchHosts: { names: [on.farm.hostName] },
    };
    await on.apply(
      { apiVersion: "v1", ...named("Secret"), stringData: { HF_TOKEN: "t" } },
      { apiVersion: "metalbridge.dev/v1alpha1", ...named("Model"), spec },
    );
  }

  it("downloads a Model to the hosts that prefetch it before anything is deployed", async () => {
    await using origin = await startOrigin();
    const content = readFileSync(file);
    const source = `${origin.url}/prefetched.gguf`;
    const { objects, hostName } = on.farm;
    origin.serve("/prefetched.gguf", content);
    await applyPrefetched(source);
    const { status } = await objects.until("default", "model/prefetched", (found) => {
      expect(found.status?.prefetch).toEqual({ wanted: 1, ready: 1, summary: "1/1" });
      return found;
    });
    expect(status.conditions).toContainEqual(
      expect.objectContaining({ type: "Prefetched", status: "True", reason: "PrefetchComplete" }),
    );
    expect(await on.farm.kubectl(["get", "mdl", "prefetched"])).toMatch(/PREFETCHED[^\n]*\n.* 1\/1 /);
    await until(async () =>
      expect(await objects.events("default", "prefetched")).toContain("Normal PrefetchComplete"),
    );
    await objects.until("", `host/${hostName}`, (host) =>
      expect(host.status.models).toMatchObject([{ source, inUse: false, sizeBytes: content.length }]),
    );
  });

  it("pulls, pins, verifies and removes a model of a host through the cluster", async () => {
    await using origin = await startOrigin();
    const content = Buffer.concat([readFileSync(file), Buffer.from("another model")]);
    const source = `${origin.url}/pulled.gguf`;
    origin.serve("/pulled.gguf", content);
    const { hostName, stateDir } = on.farm;
    const models = (...line: string[]) => run("models", ...line, "--host", hostName);
    const failed = (text: string) => ({ code: 1, stderr: expect.stringContaining(text) });
    expect(await models("pin", source)).toMatchObject(failed("ModelNotStored"));
    expect(await models("pull", source)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^pulled .*pulled\.gguf \(/),
    });
    expect(await models("pin", source)).toMatchObject({ code: 0, stdout: `pinned ${source}\n` });
    expect((await run("models", "list", "-A")).stdout).toMatch(
      new RegExp(`\n${hostName} +${source} .* pinned\n`),
    );
    expect(await models("rm", source)).toMatchObject(failed("ModelPinned"));
    const blob = path.join(stateDir, "models/blobs/sha256", sha256(content));
    const rotten = Buffer.from(content);
    rotten[content.length - 1] = 0;
    chmodSync(blob, 0o600);
    writeFileSync(blob, rotten);
    expect(await models("verify")).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/pulled\.gguf .*damaged/),
    });
    const { message } = await on.farm.objects.until("default", "events", (events) => {
      const about = { kind: "Host", name: hostName };
      const damaged = { reason: "WeightsDamaged", involvedObject: expect.objectContaining(about) };
      expect(events).toContainEqual(expect.objectContaining(damaged));
      return events.find(({ reason }: { readonly reason: string }) => reason === "WeightsDamaged");
    });
    expect(message).toContain("pulled.gguf of");
    await until(() => expect(readFileSync(blob).equals(content)).toBe(true));
    expect(await models("unpin", source)).toMatchObject({ code: 0 });
    expect(await models("rm", source)).toMatchObject({ code: 0, stdout: expect.stringContaining("removed") });
    expect(existsSync(blob)).toBe(false);
    expect((await models("list", "-o", "json")).stdout).not.toContain("pulled.gguf");
  });
});
