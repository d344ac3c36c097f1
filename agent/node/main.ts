/** `metalbridge node`: reads this machine and publishes a report on change. Without changes it sends no requests to the API server. */

import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { describeError } from "../../src/api/errors.ts";
import { type NodeReport, steadyReport } from "../../src/api/node-report.ts";
import { healthRoutes } from "../../src/http/listener.ts";
import { withFlexinferNames } from "../../src/http/metrics/live.ts";
import { METRICS_TYPE, renderFamilies } from "../../src/http/metrics/render.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { publishReport, type ReportPlace } from "../../src/kube/node-report.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { retryMs } from "../../src/util/backoff.ts";
import { createRunCommand } from "../../src/util/command.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { readEnvironment } from "../config/environment.ts";
import { type HardwareRoots, rootsUnder } from "../host/linux/roots.ts";
import { listenWithRetry } from "../metrics/server.ts";
import { type NodeConfig, nodeNameOf, nodeReaderPaths } from "./config.ts";
import { createGpuGauges, type GpuGauges, meanUtilization, nodeMetrics } from "./gauges.ts";
import { createNodeReader, type NodeReader } from "./read.ts";

export interface NodeOptions {
  readonly config: NodeConfig;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Called for every answer of the API server. */
  readonly onAnswer?: (verb: string, status: number) => void;
  /** Called after each reading, and after the write if there was one. */
  readonly onPass?: ((isWritten: boolean) => void) | undefined;
  /** The catalog of llmfit's REST API; read at its first request. */
  readonly records?: () => Promise<readonly CatalogRecord[]>;
}

const GPU_DEVICES = /^(nvidia|kfd|dri)/;
const PCI_DEVICES = /^\+pci:/;
/** Drivers create several files, one after the other. */
const SETTLE_MS = 2_000;

const USER_AGENT = "metalbridge-node";
const RETRY = { firstMs: 1_000, capMs: 60_000 };
/** Devices that were added without an event are found within this time. */
const FORGET_MS = 3_600_000;

/** Reads the machine once, and publishes nothing. */
export function readNodeOnce(config: NodeConfig): Promise<NodeReport> {
  return createReader(config).read();
}

/** Maximum size of a termination message. The kubelet truncates a longer one. */
const MAX_ANSWER_BYTES = 4096;

/** The result of a probe pod: short, and without installed programs, because the pod sees no files of the node but /proc and /sys. */
export async function readAsProbe(root = "/"): Promise<string> {
  const run = createRunCommand(readEnvironment().toolPath);
  const roots = { ...rootsUnder(root), isOwn: false };
  const report = await createNodeReader({ roots, installed: undefined, run, clock: systemClock }).read();
  const text = JSON.stringify(report);
  return Buffer.byteLength(text) <= MAX_ANSWER_BYTES ? text : JSON.stringify({ ...report, leftOut: [] });
}

/** Resolves after `signal` was aborted. Rejects if it cannot start, for lack of a kubeconfig. */
export async function runNode({ config, log, signal, ...options }: NodeOptions): Promise<void> {
  const { clock = systemClock, onAnswer, onPass } = options;
  const { kubeconfig: kubeconfigPath, context, namespace } = config;
  const node = nodeNameOf(config);
  const reader = createReader(config, log);
  const { roots } = nodeReaderPaths(config);
  const gauges = createGpuGauges(roots, createRunCommand(readEnvironment().toolPath), clock);
  serveMetricsOf(config, gauges, { clock, log, signal });
  await serveLlmfitOf(config, reader, { clock, log, signal, records: options.records });
  const connection = await connect({ kubeconfigPath, context, userAgent: USER_AGENT, onResponse: onAnswer });
  const place = { client: createClient(connection), node, namespace };
  let wake = new AbortController();
  const onChange = (): void => {
    reader.forget();
    wake.abort();
  };
  watchDevices(roots, { clock, signal, onChange });
  const publisher = createPublisher({ place, reader, gauges, log, onPass });
  let forgetAtMs = clock.monotonicMs() + FORGET_MS;
  log.info({ node, namespace, server: connection.server }, "node started");
  try {
    while (!signal.aborted) {
      wake = new AbortController();
      const failure = await publisher.pass();
      const delayMs = failure === undefined ? config.interval * 1_000 : failure.retryMs;
      await waitMs(clock, delayMs, AbortSignal.any([signal, wake.signal]));
      if (clock.monotonicMs() < forgetAtMs) continue;
      reader.forget();
      forgetAtMs = clock.monotonicMs() + FORGET_MS;
    }
  } finally {
    connection.close();
  }
}

/** Returns at once; retries until it listens. */
function serveMetricsOf(
  config: NodeConfig,
  gauges: GpuGauges,
  { clock, log, signal }: Required<Pick<NodeOptions, "clock" | "log" | "signal">>,
): void {
  const { metricsPort: port, metricsAddress: address, flexinferMetricNames } = config;
  if (port === undefined) return;
  const node = nodeNameOf(config);
  const families = flexinferMetricNames ? withFlexinferNames(nodeMetrics) : nodeMetrics;
  const render = () => renderFamilies(families, { node, gpus: gauges.latest() });
  const metrics = () => ({ status: 200, body: render(), type: METRICS_TYPE });
  const routes = healthRoutes({ notReady: () => [], metrics });
  listenWithRetry({ address, port, routes, signal }, { clock, log, what: "/metrics" });
}

/** Loads the REST API only if it is configured. */
async function serveLlmfitOf(
  config: NodeConfig,
  reader: NodeReader,
  {
    records = async () => [],
    ...parts
  }: Required<Pick<NodeOptions, "clock" | "log" | "signal">> & Pick<NodeOptions, "records">,
): Promise<void> {
  const { llmfitPort: port, llmfitAddress: address, llmfitTokenFile: tokenFile } = config;
  if (port === undefined) return;
  const [{ serveLlmfit }, { factsOfNode }, { createLlmfitRest }] = await Promise.all([
    import("../metrics/llmfit.ts"),
    import("../../fitness/llmfit/rest/host-facts.ts"),
    import("../../fitness/llmfit/rest/rest.ts"),
  ]);
  const facts = async () => factsOfNode(nodeNameOf(config), await reader.read());
  const load = async () => createLlmfitRest(await records());
  serveLlmfit({ ...parts, address, port, tokenFile, facts, load });
}

function createReader(config: NodeConfig, log?: Log): NodeReader {
  const run = createRunCommand(readEnvironment().toolPath);
  return createNodeReader({ ...nodeReaderPaths(config), run, clock: systemClock, log });
}

/** Reads the machine, and writes the report if it differs from the last one. */
function createPublisher({
  place,
  reader,
  gauges,
  log,
  onPass,
}: {
  readonly place: ReportPlace;
  readonly reader: NodeReader;
  readonly gauges: GpuGauges;
} & Pick<NodeOptions, "log" | "onPass">) {
  let published: { readonly report: NodeReport; readonly text: string } | undefined;
  let failures = 0;
  let logged: string | undefined;
  const onFailure = (error: ApiFailure) => {
    failures += 1;
    const why = describeError(explainFailure(error));
    if (why !== logged) log.warn({ why }, "the report of this node cannot be written");
    logged = why;
    return { retryMs: retryMs(failures, RETRY, error.retryAfterMs) };
  };
  const write = async (report: NodeReport, text: string) => {
    const result = await publishReport(place, text);
    if (!result.ok) return onFailure(result.error);
    [published, failures, logged] = [{ report, text }, 0, undefined];
    const { leftOut, gpus, runtimes, models } = report;
    log.info(
      { leftOut, gpus: gpus.length, runtimes: runtimes.length, models: models.length },
      "report written",
    );
    return undefined;
  };
  return {
    /** Returns the delay of the retry if the write failed. */
    pass: async () => {
      const [found] = await Promise.all([reader.read(), gauges.sample()]);
      const gpuUtilization = meanUtilization(gauges.latest());
      const report = steadyReport(published?.report, { ...found, gpuUtilization });
      const text = JSON.stringify(report);
      const isChanged = text !== published?.text;
      const failure = isChanged ? await write(report, text) : undefined;
      onPass?.(isChanged && failure === undefined);
      return failure;
    },
  };
}

/** Reports that devices may have been added or removed, by watching /dev and udev's database. Without them the machine is only read periodically. */
function watchDevices(
  { dev, udev }: Pick<HardwareRoots, "dev" | "udev">,
  { clock, signal, onChange }: { clock: Clock; signal: AbortSignal; onChange: () => void },
): void {
  let cancel: (() => void) | undefined;
  const onEvent = (): void => {
    cancel?.();
    cancel = clock.after(SETTLE_MS, onChange);
  };
  const watchers = [
    watchFolder(dev, GPU_DEVICES, onEvent),
    watchFolder(join(udev, "data"), PCI_DEVICES, onEvent),
  ];
  const stop = (): void => {
    cancel?.();
    for (const watcher of watchers) watcher?.close();
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
}

function watchFolder(folder: string, names: RegExp, onChange: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_, name) => {
      if (names.test(name ?? "")) onChange();
    });
    // The folder may be removed while it is watched.
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
