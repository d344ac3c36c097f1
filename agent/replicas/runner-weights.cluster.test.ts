/**
 * Weights that a real engine cannot load: they are tried once, and their replacement is tried automatically.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { startOrigin } from "../../test/fixtures/origin.ts";
import type { Bench } from "../../test/replicas/bench.ts";
import { countedClock } from "../../test/replicas/counted-clock.ts";
import { withBench } from "../../test/replicas/with-bench.ts";
import { silentLog, testClock } from "../store/fixtures/store.ts";
import { openStore } from "../store/store.ts";
import type { VerifiedFile } from "../store/verification.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const quick = { outsideMs: 300, backoffFirstMs: 50 };

/** Counts its starts, and refuses a file that ends in an x; without a path the one that it is to load. */
function picky(bench: Bench, path = '"$2"'): string {
  const refuse = `tail -c1 ${path} | grep -q x && { echo "error loading model" >&2; exit 1; }`;
  return bench.program(`echo 1 >>${bench.place.root}/starts; ${refuse}; exec "$REAL" "$@"`);
}

async function create(bench: Bench, name: string, source: string): Promise<void> {
  await bench.createReplica(name, (spec) => Object.assign(spec.template.model, { source }));
}

it(
  "takes up a file that was half copied at its start once the copy is complete, also after a restart",
  withBench(async (bench) => {
    const path = join(bench.place.root, "copied.gguf");
    copyFileSync(bench.modelPath, path);
    truncateSync(path, statSync(path).size - 4_096);
    const first = await bench.startAgent({ timings: quick });
    await create(bench, "chat-0-a", path);
    const failed = await bench.untilPhase("chat-0-a", "Failed");
    expect(failed.status).toMatchObject({ reason: "EngineBadModel", restarts: 1 });
    expect(failed.status?.message).toContain("retries automatically");
    await first.end();
    copyFileSync(bench.modelPath, path);
    await bench.startAgent({ timings: quick });
    const ready = await bench.untilPhase("chat-0-a", "Ready");
    expect(ready.status).toMatchObject({ restarts: 1, model: { sizeBytes: statSync(bench.modelPath).size } });
  }),
);

it(
  "tries a file again that was replaced while its replica is Failed, and no other",
  withBench(async (bench) => {
    const weights = readFileSync(bench.modelPath);
    const path = join(bench.place.root, "replaced.gguf");
    writeFileSync(path, Buffer.concat([weights, Buffer.from("x")]));
    const { clock, untilFired } = countedClock();
    await bench.startAgent({ clock, llamaServer: picky(bench, path), timings: quick });
    await create(bench, "chat-0-b", path);
    const failed = await bench.untilPhase("chat-0-b", "Failed");
    await untilFired(5);
    expect(await bench.lines("starts", 1)).toHaveLength(1);
    const { resourceVersion } = (await bench.replica("chat-0-b"))?.metadata ?? {};
    expect(resourceVersion).toBe(failed.metadata.resourceVersion);
    writeFileSync(path, weights);
    const ready = await bench.untilPhase("chat-0-b", "Ready");
    expect(ready.status).toMatchObject({ restarts: 1, model: { sizeBytes: weights.length } });
    expect(await bench.lines("starts", 2)).toHaveLength(2);
  }),
);

it(
  "takes up a file in place that was no model, or another one than its checksum says, once it is corrected",
  withBench(async (bench) => {
    const weights = readFileSync(bench.modelPath);
    const sha256 = createHash("sha256").update(weights).digest("hex");
    const { clock, untilFired } = countedClock();
    await bench.startAgent({ clock, timings: { ...quick, fetchRetryFirstMs: 200 } });
    const cases = [
      { name: "chat-0-e", wrong: "version https://git-lfs.github.com/spec/v1", reason: "SourceIsNotAModel" },
      { name: "chat-0-f", wrong: Buffer.concat([weights, Buffer.from("x")]), reason: "ChecksumMismatch" },
    ];
    for (const { name, wrong, reason } of cases) {
      const path = join(bench.place.root, `${name}.gguf`);
      writeFileSync(path, wrong);
      await bench.createReplica(name, ({ template }) =>
        Object.assign(template.model, {
          source: path,
          sha256: reason === "ChecksumMismatch" ? sha256 : undefined,
        }),
      );
      const failed = await bench.untilPhase(name, "Failed");
      expect(failed.status?.reason).toBe(reason);
      if (reason === "SourceIsNotAModel") expect(failed.status?.message).toContain("git lfs pull");
      await untilFired(5);
      const { resourceVersion } = (await bench.replica(name))?.metadata ?? {};
      expect(resourceVersion).toBe(failed.metadata.resourceVersion);
      writeFileSync(path, weights);
      const ready = await bench.untilPhase(name, "Ready");
      expect(ready.status).toMatchObject({ restarts: 0, model: { sizeBytes: weights.length } });
    }
  }),
);

it(
  "downloads weights again that were damaged on disk, and tries them although they failed",
  withBench(async (bench) => {
    await using origin = await startOrigin();
    origin.serve("/tiny.gguf", readFileSync(bench.modelPath));
    const at = { dir: join(bench.place.root, "store"), allowedRoots: [], hfEndpoint: "http://127.0.0.1:9" };
    const ports = { clock: testClock, log: silentLog };
    const store = await openStore({ ...at, ...ports, reserveBytes: 0, allowLoopback: true });
    const agent = await bench.startAgent({ store, llamaServer: picky(bench), timings: quick });
    await create(bench, "chat-0-d", `${origin.url}/tiny.gguf`);
    const { status } = await bench.untilPhase("chat-0-d", "Ready");
    const blob = join(at.dir, "blobs/sha256", status?.model?.sha256 ?? "");
    chmodSync(blob, 0o600);
    const file = openSync(blob, "r+");
    writeSync(file, "x", statSync(blob).size - 1);
    closeSync(file);
    process.kill(status?.pid ?? 0, "SIGKILL");
    await bench.untilReason("chat-0-d", "EngineBadModel");
    const onDamaged = ({ sha256 }: VerifiedFile) =>
      agent.runner.weightsDamaged(sha256, "the disk damaged it");
    const verified = await store.verify({ signal: AbortSignal.timeout(60_000), onDamaged });
    expect(verified).toMatchObject([{ state: "damaged" }]);
    await bench.untilPhase("chat-0-d", "Ready");
    expect(origin.seen.filter(({ method }) => method === "GET")).toHaveLength(2);
  }),
);
