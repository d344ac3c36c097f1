import { rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { benchmarkOrderSchema } from "../../src/api/benchmark.ts";
import { llamaBench } from "../../src/engines/llamacpp/bench.ts";
import { processPorts } from "../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import { program } from "../../test/fixtures/started-llama-server.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { findBeside } from "../engines/driver/program.ts";
import { createProcessInstances } from "../instances/process/process-instance.ts";
import { measure } from "./measure.ts";

const llamaBenchPath = await findBeside("llama-bench", program).catch(() => undefined);

test.skipIf(llamaBenchPath === undefined)(
  "a measured generation is kept if the next test cannot start (needs llama-bench)",
  async () => {
    const root = await mkdtemp(join(tmpdir(), "mb-measure-"));
    try {
      const [dir, path] = [join(root, "benchmark"), join(root, "tiny.gguf")];
      await writeTinyGguf(path);
      const order = benchmarkOrderSchema.parse({
        key: "key",
        namespace: "default",
        name: "tiny",
        model: { source: `file://${path}`, format: "gguf" },
        runtime: "llamacpp",
        deviceClass: "cpu-test-2",
        settings: {},
        plan: { warmups: 0, runs: 1, tokens: 16 },
      });
      let round = 0;
      const bench = {
        ...llamaBench,
        tests: llamaBench.tests.slice(0, 2),
        find: async () => "",
        env: () => ({ PATH: process.env.PATH ?? "" }),
        args: (process: Parameters<typeof llamaBench.args>[0]) => {
          round += 1;
          if (round === 2) {
            rmSync(dir, { recursive: true });
            writeFileSync(dir, "");
          }
          return llamaBench.args(process);
        },
      };
      const ports = processPorts();
      const measured = await measure(
        { order, bench, program: llamaBenchPath ?? "", model: { path, sizeBytes: 1, files: [] } },
        {
          ...ports,
          dir,
          processes: createProcessInstances(createSupervisor(ports), {
            ...ports,
            footprintBytes: async () => 1,
          }),
          platform: "linux",
          signal: new AbortController().signal,
        },
      );
      expect(measured.generation.median).toBeGreaterThan(0);
      expect(measured.prompt512).toBeUndefined();
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  },
);
