/** A new model is measured once on each class of machines without being asked, with the real llama-bench, and again after the build has changed. */
import { chmodSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { BENCHMARKS_NAME, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import { describeUnless } from "../bed/describe-unless.ts";
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
  it("are stored once for each class of machines, and follow the build of the engine", async () => {
    await using origin = await startOrigin();
    const config = { disk: { reserve: 0 }, sources: { allowLoopback: true }, benchmark: { idleMs: 100 } };
    await using folder = await temporaryFolder();
    const cpuinfo = path.join(folder.path, "cpuinfo");
    const wrapper = path.join(folder.path, "llama-server");
    const wrapperWith = (line: string) => `#!/bin/sh\n${line}\nexec ${engine} "$@"\n`;
    writeFileSync(wrapper, wrapperWith(""));
    chmodSync(wrapper, 0o755);
    symlinkSync(bench, path.join(folder.path, "llama-bench"));
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
        { hostName: "fast", config, llamaServer: wrapper },
        { hostName: "slow", config, launcher },
      ],
    });
    const { farm, apply } = system;
    const weights = path.join(farm.dir, "chat.gguf");
    await writeTinyGguf(weights);
    origin.serve("/chat.gguf", readFileSync(weights));
    await system.services.untilHostsReady();
    const table = async () => {
      const text = await farm.kubectl([
        "get",
        "configmap",
        BENCHMARKS_NAME,
        "-n",
        NAMESPACE_SYSTEM,
        "-o",
        "json",
      ]);
      return [...readBenchmarks(JSON.parse(text)).results.values()];
    };
    await apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "Model",
      metadata: { name: "chat", namespace: "default" },
      // Without copies the agents would need 20% of the disk of this machine.
      spec: {
        source: `${origin.url}/chat.gguf`,
        prefetch: true,
        benchmark: { runs: 2, warmups: 0, tokens: 16 },
      },
    });
    const first = await until(async () => {
      const results = await table();
      expect(results.map(({ machine }) => machine).sort()).toEqual(["fast", "slow"]);
      return results;
    });
    expect(new Set(first.map(({ deviceClass }) => deviceClass)).size).toBe(2);
    expect(first[0]).toMatchObject({
      tool: "llama-bench",
      generation: { samples: [expect.any(Number), expect.any(Number)] },
    });
    await until(async () => {
      const text = await farm.kubectl(["describe", "model", "chat"]);
      for (const { deviceClass } of first) expect(text).toContain(`${deviceClass}: `);
      expect(text).toMatch(/tokens\/s with llamacpp[\s\S]*measured .* tokens\/s/);
    });

    writeFileSync(wrapper, wrapperWith(`[ "$1" != --version ] || exec echo "version: 99999 (abcdef)"`));
    const [fast] = farm.agents;
    await fast?.part().kill("SIGTERM");
    fast?.restart();
    await until(async () => {
      const results = await table();
      expect(results.map(({ machine, build }) => [machine, build]).sort()).toEqual([
        ["fast", "b99999"],
        ["slow", first[0]?.build],
      ]);
    });
  });
});
