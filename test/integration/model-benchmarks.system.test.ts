/** A new model is measured once on each class of machines without being asked, with the real llama-bench, and again after the build has changed. Its services run on the class that is faster. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { BENCHMARKS_NAME, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { serviceAnywhere } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { startOrigin } from "../fixtures/origin.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const engine = findLlamaServer(readPartsConfig());
const bench = path.join(path.dirname(engine ?? ""), "llama-bench");
const why = whyNoNodeNetwork() ?? (existsSync(bench) ? undefined : "needs llama-bench");

describeUnless(why, "benchmarks of a model", () => {
  it("are stored once for each class of machines, follow the build of the engine, and decide where services run", async () => {
    await using origin = await startOrigin();
    const config = { disk: { reserve: 0 }, sources: { allowLoopback: true }, benchmark: { idleMs: 100 } };
    await using folder = await temporaryFolder();
    const cpuinfo = path.join(folder.path, "cpuinfo");
    // Threads of an engine wait for each other, so more threads than processors make it much slower.
    const install = (host: string, threads: number, line = "") => {
      const program = (name: string) => path.join(folder.path, host, name);
      mkdirSync(path.join(folder.path, host), { recursive: true });
      writeFileSync(program("llama-server"), `#!/bin/sh\n${line}\nexec ${engine} "$@"\n`, { mode: 0o755 });
      writeFileSync(program("llama-bench"), `#!/bin/sh\nexec ${bench} "$@" -t ${threads}\n`, { mode: 0o755 });
      return program("llama-server");
    };
    writeFileSync(
      cpuinfo,
      readFileSync("/proc/cpuinfo", "utf8").replace(/^(model name\s*: ).*$/gm, "$1Slow CPU"),
    );
    // Its agent sees another processor.
    const launcher = [
      "unshare",
      "--mount",
      "sh",
      "-c",
      `mount --bind ${cpuinfo} /proc/cpuinfo && exec "$0" "$@"`,
      process.execPath,
    ];
    await using system = await startSystem({
      benchmarks: true,
      controllerArgs: ["--allow-loopback"],
      agents: [
        { hostName: "fast", config, llamaServer: install("fast", 1) },
        { hostName: "slow", config, launcher, llamaServer: install("slow", 3) },
      ],
    });
    const { farm, apply } = system;
    const weights = path.join(farm.dir, "chat.gguf");
    await writeTinyGguf(weights);
    origin.serve("/chat.gguf", readFileSync(weights));
    await system.services.untilHostsReady();
    const tableUntil = <T>(check: (results: readonly BenchmarkResult[]) => T) =>
      farm.objects.until(NAMESPACE_SYSTEM, `configmap/${BENCHMARKS_NAME}`, (found) =>
        check([...readBenchmarks(found).results.values()]),
      );
    await apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Model",
      metadata: { name: "chat", namespace: "default" },
      // Without copies the agents would need 20% of the disk of this machine.
      spec: {
        source: `${origin.url}/chat.gguf`,
        prefetch: true,
        benchmark: { runs: 1, warmups: 0, tokens: 16 },
      },
    });
    const first = await tableUntil((results) => {
      expect(results.map(({ machine }) => machine).sort()).toEqual(["fast", "slow"]);
      return results;
    });
    expect(new Set(first.map(({ deviceClass }) => deviceClass)).size).toBe(2);
    expect(first[0]).toMatchObject({
      tool: "llama-bench",
      generation: { samples: [expect.any(Number)] },
    });
    await until(
      async () => {
        const text = await farm.kubectl(["describe", "model", "chat"]);
        for (const { deviceClass } of first) expect(text).toContain(`${deviceClass}: `);
        expect(text).toMatch(/tokens\/s with llamacpp[\s\S]*measured .* tokens\/s/);
      },
      { everyMs: 500 },
    );

    const runsOn = async (name: string, host: string) => {
      await apply(serviceAnywhere(name, { modelRef: "chat", rollout: { drainSeconds: 1 } }));
      await system.services.untilReady(name);
      // By the formula: 0.7 for the fastest machine, without load and cost.
      const reason = new RegExp(
        `ReplicaCreated.* on ${host}: .*score 0.70: (\\S+) of \\1 tokens/s \\(measured\\)`,
      );
      const shown = async () => expect(await farm.kubectl(["describe", "isvc", name])).toMatch(reason);
      await until(shown, { everyMs: 500 });
      // A host measures while it is idle.
      await farm.objects.remove("default", `isvc/${name}`);
    };
    await runsOn("first", "fast");

    // The builds change places: one thread and three on two processors differ by more than a busy machine does.
    const newBuild = `[ "$1" != --version ] || exec echo "version: 99999 (abcdef)"`;
    install("fast", 3, newBuild);
    install("slow", 1, newBuild);
    for (const agent of farm.agents) {
      await agent.part().kill("SIGTERM");
      agent.restart();
    }
    await tableUntil((results) => {
      expect(results.map(({ machine, build }) => [machine, build]).sort()).toEqual([
        ["fast", "b99999"],
        ["slow", "b99999"],
      ]);
    });
    await runsOn("second", "slow");
  });
});
