/** Download with checksum and publication by the agent's store, against `curl | sha256sum` of the same bytes in the same run. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelRequest } from "../../../agent/store/types.ts";
import { run, UNHURRIED } from "../../../test/bed/run.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { type BenchOrigins, type SourceOrigin, startOrigins } from "../beds/origins.ts";
import type { FetchJob } from "../workers/fetch.ts";

const ROUNDS = 3;
const AT_ONCE = 8;
const SMALL_BYTES = 1_000_000;
const WORKER = fileURLToPath(new URL("../workers/fetch.ts", import.meta.url));

/** Downloads one file of `sizeBytes` from each source, then several files at once with that total size. */
export async function measureSources(sizeBytes: number): Promise<readonly ScenarioResult[]> {
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-sources-"));
  try {
    await using origins = await startOrigins(dir, sizeBytes);
    const fetch = fetcher(origins, path.join(dir, "store"));
    const each: ScenarioResult[] = [];
    for (const origin of origins.all) each.push(...(await measureSource(origin, fetch)));
    return [...each, await measureTogether(origins, sizeBytes, fetch)];
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Fetched {
  readonly ms: number;
  readonly growthBytes: number;
}

type Fetch = (requests: readonly ModelRequest[]) => Promise<Fetched>;

async function measureSource({ name, request, url }: SourceOrigin, fetch: Fetch): Promise<ScenarioResult[]> {
  const ratios: number[] = [];
  const growths: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = performance.now();
    await run("sh", ["-c", 'curl -sSfL "$0" | sha256sum', url], UNHURRIED);
    const curlMs = performance.now() - startedAt;
    const { ms, growthBytes } = await fetch([request]);
    ratios.push(ms / curlMs);
    growths.push(growthBytes / 1e6);
  }
  return [
    measured(`${name}: download + checksum + publication, to curl | sha256sum`, "ratio", ratios, {
      p50: 1.2,
    }),
    measured(`${name}: memory that it adds`, "MB", growths, { p50: 30 }),
  ];
}

async function measureTogether(
  origins: BenchOrigins,
  sizeBytes: number,
  fetch: Fetch,
): Promise<ScenarioResult> {
  const bytes = Math.round(sizeBytes / AT_ONCE);
  const requests = Array.from({ length: AT_ONCE }, (_, index) => ({
    source: `${origins.url}/${bytes}/${index}.gguf`,
  }));
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS; round++) samples.push((await fetch(requests)).growthBytes / 1e6);
  return measured(`${AT_ONCE} downloads at once: memory that they add`, "MB", samples, { p50: 30 });
}

function fetcher({ url }: BenchOrigins, dir: string): Fetch {
  return async (requests) => {
    const warmUp = { source: `${url}/${SMALL_BYTES}/warm-up.gguf` };
    const job: FetchJob = { dir, hfEndpoint: url, warmUp, requests };
    try {
      return JSON.parse(
        await run(process.execPath, ["--import", "tsx", WORKER, JSON.stringify(job)], UNHURRIED),
      ) as Fetched;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  };
}
