/** The density API over 1,000 hosts and 1,000 models: queries by HTTP, a host that changes, and the memory of the process. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { BUNDLE_OPTIONS, REQUIRE } from "../../bundle.ts";
import type { Measurement } from "../measurement.ts";
import type { DensityChange } from "../workers/density.ts";

const HOSTS = 1000;
const MODELS = 1000;
const QUERIES = 100;
const CHANGES = 100;
/** One model, families of several sizes, and pages of everything. */
const ROUTES = {
  "query of one model": "/api/v1/density/query?model=Qwen/Qwen2.5-7B-Instruct",
  "query of a family": "/api/v1/density/query?model=Qwen3&limit=100",
  "catalogue, a page": "/api/v1/catalog?limit=5",
  "nodes, all": "/api/v1/density/nodes",
} as const;
const WORKER = fileURLToPath(new URL("../workers/density.ts", import.meta.url));
const MB = 1e6;
/** As cli/metalbridge.mjs starts the server. */
const FLAGS = [
  ...["--single-threaded-gc", "--v8-pool-size=1", "--min-semi-space-size=2", "--max-semi-space-size=4"],
  ...["--no-allocation-site-pretenuring", "--no-incremental-marking", "--max-old-space-size=384"],
];

/** Bundled, as it is installed: a loader of TypeScript would count as memory of the server. */
export async function measureDensity(): Promise<readonly Measurement[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-density-"));
  const worker = await startWorker(folder);
  try {
    const [{ port }] = (await once(worker, "message")) as [{ readonly port: number }];
    // Scores every class of machines.
    await (await fetch(`http://127.0.0.1:${port}${ROUTES["nodes, all"]}`)).text();
    const atRest = await changeHost(worker, { index: 0, budgetGib: 48 });
    const queries: Measurement[] = [];
    for (const [name, route] of Object.entries(ROUTES)) {
      const samples = await timeRequests(`http://127.0.0.1:${port}${route}`);
      const isQuery = name.startsWith("query");
      const targets = isQuery ? [{ statistic: "p99", limit: 50 } as const] : [];
      queries.push({ name: title(name), unit: "ms", samples, targets });
    }
    const { known, fresh, residentBytes } = await changeHosts(worker);
    return [
      ...queries,
      change("a host changed, its class is known", known),
      change("a host changed, into a class of its own", fresh),
      {
        ...{ name: title("memory once all is scored"), unit: "MB", samples: [atRest.residentBytes / MB] },
        targets: [{ statistic: "max", limit: 120 }],
      },
      {
        ...{ name: title("memory after the requests"), unit: "MB", samples: [residentBytes / MB] },
        targets: [{ statistic: "max", limit: 120 }],
      },
    ];
  } finally {
    if (worker.connected) worker.disconnect();
    await once(worker, "exit");
    await rm(folder, { recursive: true, force: true });
  }
}

async function startWorker(folder: string): Promise<ChildProcess> {
  const outfile = path.join(folder, "worker.mjs");
  await build({
    ...BUNDLE_OPTIONS,
    ...{ entryPoints: [WORKER], outfile, format: "esm", banner: { js: REQUIRE } },
    // The catalogue is read beside the fixtures.
    define: {
      "import.meta.url": JSON.stringify(
        new URL("../../../server/density/fixtures/fleet.ts", import.meta.url).href,
      ),
    },
  });
  const env = { ...process.env, MALLOC_ARENA_MAX: "1" };
  return fork(outfile, [String(HOSTS), String(MODELS)], { execArgv: FLAGS, env });
}

async function timeRequests(url: string): Promise<readonly number[]> {
  const headers = { authorization: "Bearer bench" };
  const samples: number[] = [];
  for (let turn = 0; turn <= QUERIES; turn += 1) {
    const startedMs = performance.now();
    const response = await fetch(url, { headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${url}: ${response.status} ${text.slice(0, 200)}`);
    // The first works out what the others find.
    if (turn > 0) samples.push(performance.now() - startedMs);
  }
  return samples;
}

async function changeHosts(worker: ChildProcess) {
  const known: number[] = [];
  const fresh: number[] = [];
  let residentBytes = 0;
  for (let index = 0; index < CHANGES; index += 1) {
    const isFresh = index % 2 === 1;
    const answer = await changeHost(worker, { index, budgetGib: isFresh ? 30 + index / 10 : 48 });
    if (index > 1) (isFresh ? fresh : known).push(answer.ms);
    residentBytes = Math.max(residentBytes, answer.residentBytes);
  }
  return { known, fresh, residentBytes };
}

async function changeHost(worker: ChildProcess, wish: DensityChange) {
  const answered = once(worker, "message");
  worker.send(wish);
  const [answer] = (await answered) as [{ readonly ms: number; readonly residentBytes: number }];
  return answer;
}

function change(name: string, samples: readonly number[]): Measurement {
  return { name: title(name), unit: "ms", samples, targets: [{ statistic: "p99", limit: 20 }] };
}

function title(name: string): string {
  return `density, ${HOSTS} hosts × ${MODELS} models: ${name}`;
}
