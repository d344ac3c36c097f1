/** Programs of BackendRuntimes under the real runner: a tiny server, llama-server itself, and what a host refuses. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { ProgramSpec } from "../../../src/api/fields/program.ts";
import { WITH_COMPILE_CACHE } from "../../../test/fixtures/compile-cache.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import type { Bench } from "../../../test/replicas/bench.ts";
import { withBench } from "../../../test/replicas/with-bench.ts";
import { createEngineDrivers } from "../registry.ts";
import type { AllowedBackends } from "./backends.ts";

const TINY = fileURLToPath(new URL("../testing/tiny-program.ts", import.meta.url));

test(
  "a host runs the program of a BackendRuntime by name, adopts it, drains it by its gauge, and refuses all others",
  withBench(async (bench) => {
    const path = script(bench, "serve");
    const allowed = { mine: { path } };
    const first = await allowing(bench, allowed);
    await create(bench, "one", { command: ["engine", ...ARGS], backend: "mine" });
    await create(bench, "same", { command: [path, ...ARGS], backend: "mine" });
    const exec = [path, "--check"];
    await create(bench, "exec", { command: ["engine", ...ARGS], backend: "mine", liveness: { exec } });
    await create(bench, "named", { command: ["engine", ...ARGS], backend: "other" });
    await create(bench, "path", { command: [`${path}-2`, ...ARGS], backend: "mine" });
    await create(bench, "plain", { command: [path, ...ARGS] });
    const one = await bench.untilPhase("one", "Ready");
    const url = (of: string) => `http://${bench.address}:${one.status?.port}${of}`;
    expect(await (await fetch(url("/arguments"))).json()).toEqual([
      ...[String(one.status?.port), bench.address, bench.modelPath, "chat"],
    ]);
    for (const name of ["same", "exec"]) await bench.untilPhase(name, "Ready");

    const refused = async (name: string) => (await bench.untilReason(name, "BackendNotAllowed")).status;
    expect((await refused("named"))?.message).toMatch(
      /does not allow BackendRuntime other; set backends\.other\.path in the agent's configuration/,
    );
    expect((await refused("path"))?.message).toContain(`but this host allows only ${path};`);
    const { status } = await bench.untilReason("plain", "ProgramNotAllowed");
    expect(status?.message).toContain("generic.roots in the agent's configuration (it allows none)");

    // A gauge that shows no request ends the drain long before drainSeconds.
    await bench.deleteReplica("same");
    await bench.untilGone("same");

    await first.end();
    await allowing(bench, { ...allowed, other: { path } });
    const named = await bench.untilPhase("named", "Ready");
    expect(named.status?.port).not.toBe(one.status?.port);
    expect((await bench.replica("one"))?.status).toMatchObject({ phase: "Ready", pid: one.status?.pid });
  }),
);

test.skipIf(findLlamaServer() === undefined)(
  "llama-server is served from a BackendRuntime that a user wrote",
  withBench(async (bench) => {
    await allowing(bench, { "my-llama": { path: findLlamaServer() ?? "" } });
    const command = [
      ...["llama-server", "--model", "{{model}}", "--alias", "{{modelName}}"],
      ...["--host", "{{address}}", "--port", "{{port}}", "--ctx-size", "{{contextSize}}"],
      ...["--parallel", "{{slots}}", "--threads", "1", "--metrics"],
    ];
    const gauges = ["llamacpp:requests_processing", "llamacpp:requests_deferred"];
    await create(bench, "one", {
      command,
      backend: "my-llama",
      inFlightProbe: { path: "/metrics", gauges },
      memoryFormula: { weightsPercent: 110, extraBytes: 64 * 1024 ** 2 },
    });
    const { status } = await bench.untilPhase("one", "Ready");
    expect(status?.memory?.claimBasis).toBe(
      "110% of the size of the weights plus 64 MiB, as in host.memory of BackendRuntime my-llama",
    );
    const answer = await fetch(`http://${bench.address}:${status?.port}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ max_tokens: 2, messages: [{ role: "user", content: "hello" }] }),
    });
    expect(await answer.json()).toMatchObject({ model: "chat", usage: { completion_tokens: 2 } });
    await bench.deleteReplica("one");
    await bench.untilGone("one");
  }),
);

const ARGS = ["{{port}}", "{{address}}", "{{model}}", "{{modelName}}"];

function allowing(bench: Bench, backends: AllowedBackends) {
  return bench.startAgent({
    drivers: (options) => createEngineDrivers({ ...options, config: { ...options.config, backends } }),
    timings: { propagationMs: 0, outsideMs: 300, liveProbeMs: 200, failedProbeMs: 50 },
  });
}

/** A program that answers, and that exits with 0 if it is run as a probe. */
function script(bench: Bench, name: string): string {
  const path = join(bench.place.root, name);
  const probe = '[ "$1" = --check ] && exit 0';
  writeFileSync(
    path,
    `#!/bin/sh\n${probe}\n${WITH_COMPILE_CACHE}\nexec '${process.execPath}' '${TINY}' "$@"\n`,
  );
  chmodSync(path, 0o755);
  return path;
}

function create(bench: Bench, name: string, change: Partial<ProgramSpec>) {
  return bench.createReplica(name, (into) => {
    const program = { env: [], liveness: { httpPath: "/health" }, inFlightProbe: held, ...change };
    const engine = { mode: "chat", contextSize: 512, parallelSlots: 1, program } as const;
    Object.assign(into.template, { runtime: "generic", engine });
    Object.assign(into, { drainSeconds: 600 });
  });
}

const held = { path: "/metrics", gauges: ["held"] };
