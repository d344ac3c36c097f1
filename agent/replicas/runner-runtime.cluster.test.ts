/** Engines that are installed or upgraded while replicas wait for it, with a real one. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { countedClock } from "../../test/replicas/counted-clock.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;

it(
  "waits for a runtime that is not installed, and starts once it is",
  withBench(async (bench) => {
    const path = `${bench.place.root}/not-there`;
    const agent = await bench.startAgent({
      llamaServer: path,
      timings: { outsideMs: 300 },
      drivers: bench.drivers(path, ""),
    });
    await bench.createReplica("chat-0-a");
    const waiting = await bench.untilPhase("chat-0-a", "Waiting");
    expect(waiting.status).toMatchObject({ reason: "RuntimeNotInstalled" });
    expect(waiting.status?.message).toContain("brew install llama.cpp");
    bench.program('exec "$REAL" "$@"', path);
    await bench.untilPhase("chat-0-a", "Ready");
    expect(agent.runner.snapshot()).toHaveLength(1);
  }),
);

it(
  "tries settings again that the engine did not know once another version is installed, and not before",
  withBench(async (bench) => {
    // An older build: another number, and one flag less.
    const old = bench.program("exit 1");
    const help = readFileSync(old, "utf8").split("\n")[1] ?? "";
    writeFileSync(
      old,
      `#!/bin/sh
${help}
case "$*" in
  *--version*) "$REAL" --version 2>&1 | sed 's/build [0-9]*/build 9000/';;
  *--help*) "$REAL" --help | grep -v -e '--cache-ram N';;
  *) echo started >>${bench.place.root}/starts; exec "$REAL" "$@";;
esac
`,
    );
    const { clock, untilFired } = countedClock();
    await bench.startAgent({ clock, llamaServer: old, timings: { outsideMs: 300 } });
    await bench.createReplica("chat-0-v", ({ template }) =>
      Object.assign(template.engine, { promptCacheMiB: 10 }),
    );
    const failed = await bench.untilPhase("chat-0-v", "Failed");
    expect(failed.status?.message).toContain("llama-server b9000 has no --cache-ram");
    await untilFired(5);
    const { resourceVersion } = (await bench.replica("chat-0-v"))?.metadata ?? {};
    expect(resourceVersion).toBe(failed.metadata.resourceVersion);
    bench.program('exec "$REAL" "$@"', old);
    const ready = await bench.untilPhase("chat-0-v", "Ready");
    expect(ready.status).toMatchObject({ restarts: 0 });
    expect(() => readFileSync(`${bench.place.root}/starts`)).toThrow("ENOENT");
  }),
);
