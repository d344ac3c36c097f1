/** The density API over 1,000 hosts and 1,000 models: queries by HTTP, memory of the process, and a host that changes. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { aHost, manyHosts, manyRecords } from "../../../fitness/density/fixtures/fleet.ts";
import { API_VERSION, MANAGER_AGENT } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import { HOSTS as HOST_KIND } from "../../../src/api/kinds.ts";
import { kubectlFor } from "../../../test/bed/kubectl.ts";
import { must } from "../../../test/bed/must.ts";
import type { Part } from "../../../test/bed/part.ts";
import { until } from "../../../test/bed/until.ts";
import { BUNDLE_OPTIONS, REQUIRE } from "../../bundle/bundle.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { openPlane, type Plane } from "../beds/plane.ts";
import { inParallel } from "../beds/scripted-fleet.ts";
import type { DensityChange } from "../workers/density.ts";
import type { WatchProgress, WatchReaders } from "../workers/watch-readers.ts";
import { megabytes } from "./idle.ts";

const HOSTS = 1000;
const MODELS = 1000;
const QUERIES = 100;
const CHANGES = 100;
const READERS = 30;
const READER_CHANGES = 20;
/** One model, families of several sizes, and pages of everything. */
const ROUTES = {
  "query of one model": "/api/v1/density/query?model=Qwen/Qwen2.5-7B-Instruct",
  "query of a family": "/api/v1/density/query?model=Qwen3&limit=100",
  "catalog, a page": "/api/v1/catalog?limit=5",
  "nodes, all": "/api/v1/density/nodes",
} as const;
const WORKER = fileURLToPath(new URL("../workers/density.ts", import.meta.url));
const READERS_WORKER = fileURLToPath(new URL("../workers/watch-readers.ts", import.meta.url));
const START_TIMEOUT_MS = 60_000;
/** As cli/metalbridge.mjs starts the server. */
const FLAGS = [
  ...["--single-threaded-gc", "--v8-pool-size=1", "--min-semi-space-size=2", "--max-semi-space-size=2"],
  ...["--no-allocation-site-pretenuring", "--no-incremental-marking", "--heap-growing-percent=20"],
  "--no-maglev",
];

/** The server as users run it, then its state alone: what it works out for one change is not to be seen from outside. */
export async function measureDensity(): Promise<readonly ScenarioResult[]> {
  return [...(await measureServer()), ...(await measureChanges())];
}

/** Queries and memory of `metalbridge server`, over Hosts on a real control plane. */
async function measureServer(): Promise<readonly ScenarioResult[]> {
  await using plane = await openPlane({ fsync: false });
  const { kubeconfig } = plane.controlPlane;
  await createHosts(plane);
  const catalog = path.join(plane.dir, "models.jsonl");
  await writeFile(
    catalog,
    manyRecords(MODELS)
      .map((record) => JSON.stringify(record))
      .join("\n"),
  );
  const part = plane.start("server", "--catalog", catalog, "--port", "0", "--health-port", "0");
  const api = `http://127.0.0.1:${await portOf(part)}`;
  const authorization = `Bearer ${await createReader(kubeconfig)}`;
  await untilListed(`${api}${ROUTES["nodes, all"]}`, authorization);
  const memory = (when: string): ScenarioResult =>
    measured(title(`server's memory ${when}`), "MB", [megabytes(part.pid, "VmRSS")], { max: 120 });
  const scored = memory("once all is scored");
  const queries: ScenarioResult[] = [];
  for (const [name, route] of Object.entries(ROUTES)) {
    const samples = await timeRequests(`${api}${route}`, authorization);
    queries.push(measured(title(name), "ms", samples, { p99: 50 }));
  }
  const requested = memory("after the requests");
  return [
    ...queries,
    scored,
    requested,
    ...(await measureReaders({ plane, api, authorization, pid: part.pid })),
  ];
}

/** Readers that watch, while hosts change: what they add to the server's memory, and how long another request waits. */
async function measureReaders({
  plane,
  api,
  authorization,
  pid,
}: {
  readonly plane: Plane;
  readonly api: string;
  readonly authorization: string;
  readonly pid: number;
}): Promise<readonly ScenarioResult[]> {
  const beforeMb = megabytes(pid, "VmRSS");
  const routes = Object.values(ROUTES);
  const readers = fork(READERS_WORKER, { execArgv: ["--import", "tsx"] });
  let progress: WatchProgress = { synced: 0, events: 0 };
  readers.on("message", (message: WatchProgress) => {
    progress = message;
  });
  const latencies: number[] = [];
  let peakMb = beforeMb;
  // Refused at once, so what it takes is what other work holds it up.
  const observe = async (isEnough: () => boolean) => {
    for (const until = performance.now() + START_TIMEOUT_MS; !isEnough(); await pause(2)) {
      if (performance.now() > until) throw new Error("the watches did not receive a change");
      const startedMs = performance.now();
      await (await fetch(api)).text();
      latencies.push(performance.now() - startedMs);
      peakMb = Math.max(peakMb, megabytes(pid, "VmRSS"));
    }
  };
  try {
    const urls = Array.from({ length: READERS }, (_, index) => `${api}${routes[index % routes.length]}`);
    readers.send({ urls, authorization } satisfies WatchReaders);
    await observe(() => progress.synced === READERS);
    for (let index = 0; index < READER_CHANGES; index += 1) {
      const before = progress.events;
      await changeOneHost(plane, index);
      // Every watch of all nodes shows it.
      await observe(() => progress.events >= before + Math.floor(READERS / routes.length));
    }
  } finally {
    readers.disconnect();
    await once(readers, "exit");
  }
  const of30 = `${READERS} readers that watch, ${READER_CHANGES} changes`;
  return [
    measured(title(`memory added by ${of30}`), "MB", [peakMb - beforeMb], { max: 60 }),
    measured(title(`another request beside ${of30}`), "ms", latencies, { max: 50 }),
  ];
}

async function changeOneHost({ client }: Plane, index: number): Promise<void> {
  const host = manyHosts(HOSTS)[index] as Host;
  const { metadata, status } = aHost(host.metadata.name, { memoryGib: 64, budgetGib: 48 - (index % 2) });
  const manager = { manager: MANAGER_AGENT, subresource: "status" } as const;
  must(await client.apply(HOST_KIND, { metadata, status } as Host, manager));
}

async function createHosts({ client }: Plane): Promise<void> {
  const status = { manager: MANAGER_AGENT, subresource: "status" } as const;
  const hosts = manyHosts(HOSTS);
  await inParallel(hosts.length, async (index) => {
    const host = { apiVersion: API_VERSION, kind: "Host", ...hosts[index] } as Host;
    const address = `198.18.${index >> 8}.${index & 255}`;
    must(await client.create(HOST_KIND, { ...host, spec: { addresses: [address] } } as Host));
    const { metadata } = host;
    must(await client.apply(HOST_KIND, { metadata, status: host.status } as Host, status));
  });
}

async function portOf(part: Part): Promise<number> {
  return until(() => {
    const port = /"api":(\d+)/.exec(part.log())?.[1];
    if (port === undefined) throw new Error(`the server did not start:\n${part.log().slice(-2_000)}`);
    return Number(port);
  });
}

/** A token that may ask everything. */
async function createReader(kubeconfig: string): Promise<string> {
  const kubectl = kubectlFor(kubeconfig);
  await kubectl(["create", "serviceaccount", "bench"]);
  const rights = ["--clusterrole=cluster-admin", "--serviceaccount=default:bench"];
  await kubectl(["create", "clusterrolebinding", "bench", ...rights]);
  return (await kubectl(["create", "token", "bench"])).trim();
}

/** The response holds every host with its score. */
async function untilListed(url: string, authorization: string): Promise<void> {
  await until(async () => {
    const response = await fetch(url, { headers: { authorization } });
    const text = await response.text();
    if (response.status === 200 && text.split('"bestScore"').length > HOSTS) return;
    throw new Error(`not all hosts: ${response.status} ${text.slice(0, 200)}`);
  });
}

/** Bundled, as it is installed: TypeScript as it is loaded from sources is slower. */
async function measureChanges(): Promise<readonly ScenarioResult[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-density-"));
  const worker = await startWorker(folder);
  try {
    await once(worker, "message");
    const { known, fresh } = await changeHosts(worker);
    return [
      change("a host changed, its class is known", known),
      change("a host changed, into a class of its own", fresh),
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
    entryPoints: [WORKER],
    outfile,
    format: "esm",
    banner: { js: REQUIRE },
    // The catalog is read beside the fixtures.
    define: {
      "import.meta.url": JSON.stringify(
        new URL("../../../fitness/density/fixtures/fleet.ts", import.meta.url).href,
      ),
    },
  });
  const env = { ...process.env, MALLOC_ARENA_MAX: "1" };
  return fork(outfile, [String(HOSTS), String(MODELS)], { execArgv: FLAGS, env });
}

async function timeRequests(url: string, authorization: string): Promise<readonly number[]> {
  const samples: number[] = [];
  for (let turn = 0; turn <= QUERIES; turn += 1) {
    const startedMs = performance.now();
    const response = await fetch(url, { headers: { authorization } });
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
  for (let index = 0; index < CHANGES; index += 1) {
    const isFresh = index % 2 === 1;
    const response = await changeHost(worker, { index, budgetGib: isFresh ? 30 + index / 10 : 48 });
    if (index > 1) (isFresh ? fresh : known).push(response.ms);
  }
  return { known, fresh };
}

async function changeHost(worker: ChildProcess, request: DensityChange) {
  const succeeded = once(worker, "message");
  worker.send(request);
  const [response] = (await succeeded) as [{ readonly ms: number }];
  return response;
}

function change(name: string, samples: readonly number[]): ScenarioResult {
  return measured(title(name), "ms", samples, { p99: 20 });
}

function title(name: string): string {
  return `density, ${HOSTS} hosts × ${MODELS} models: ${name}`;
}
