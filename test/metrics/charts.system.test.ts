/** Agent and controller run, and every metric that an alert or a dashboard asks for is really there. */
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgent, testAddress } from "../../agent/fixtures/agent.ts";
import { parseControllerConfig } from "../../controller/config.ts";
import { runController } from "../../controller/main.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { until } from "../bed/until.ts";
import { startCluster } from "../cluster/cluster.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { allPages, inlineCode, type Page } from "../docs/pages.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { expressions } from "./charts.ts";
import { problemsOf } from "./conventions.ts";
import { type ParsedFamily, parseExposition } from "./exposition.ts";
import { parseQuery } from "./promql.ts";

const llamaServer = findLlamaServer();
/** Prometheus' own, what llama-server's builds since 2026 do not tell any more, and what the density API's own test asks for. */
const NOT_HERE = /^(up|metalbridge_engine_kv_cache_usage_ratio|metalbridge_density_.*)$/;

async function startController(kubeconfig: string) {
  const stop = new AbortController();
  const config = parseControllerConfig({ kubeconfig, healthPort: 0 });
  let running: Promise<void> = Promise.resolve();
  const listening = new Promise<number>((resolve) => {
    running = runController({
      config,
      log: quietLog,
      signal: stop.signal,
      lease: { retryMs: 1_000 },
      onListening: resolve,
    });
  });
  const port = await Promise.race([listening, running]);
  return {
    metrics: async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
    },
  };
}

function pageOf(file: string): Page {
  const found = allPages().find((page) => page.path === file);
  if (found === undefined) throw new Error(`there is no ${file}`);
  return found;
}

function manifests(name: string, source: string, spec: object): readonly object[] {
  return [model(name, source), serviceAnywhere(name, spec)];
}

interface ToldEvent {
  readonly reportingController?: string;
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly kind: string };
}

/** The API server has Events of its own, of Services whose addresses it looks over as it starts. */
function eventsOfOurs(events: readonly ToldEvent[]): readonly ToldEvent[] {
  return events.filter(({ reportingController }) => reportingController?.startsWith("metalbridge.dev/"));
}

function namesWithSeries(...all: readonly ReadonlyMap<string, ParsedFamily>[]): ReadonlySet<string> {
  return new Set(
    all
      .flatMap((families) => [...families.values()])
      .flatMap(({ samples }) => samples.map(({ name }) => name)),
  );
}

test.skipIf(llamaServer === undefined)(
  "every metric of alerts and dashboards has series in a farm where something is served, waits, failed and ended",
  async () => {
    await using cluster = await startCluster();
    const { kubeconfig, objects } = cluster;
    const folder = await mkdtemp(path.join(tmpdir(), "mb-charts-"));
    mkdirSync(path.join(folder, "models"));
    const weights = path.join(folder, "models", "tiny.gguf");
    await writeTinyGguf(weights);
    await using controller = await startController(kubeconfig);
    await using agent = await startAgent({
      kubeconfig,
      hostName: "mac-1",
      register: true,
      stopEngines: true,
      addresses: [testAddress()],
      modelRoots: [folder],
      llamaServer: [llamaServer ?? ""],
    });
    await objects.apply(
      ...manifests("chat", weights, {}),
      ...manifests("elsewhere", weights, { placement: { hosts: ["mac-2"] } }),
      ...manifests("gone", path.join(folder, "models", "none.gguf"), {}),
    );
    await objects.until("default", "isvc/chat", (service) => expect(service?.status?.phase).toBe("Ready"));

    const asked = new Set(
      expressions().flatMap(({ expr }) => parseQuery(expr).selectors.map(({ metric }) => metric)),
    );
    expect(asked.size).toBeGreaterThan(40);
    await until(async () => {
      const ofAgent = parseExposition((await agent.ask("/metrics")).replace(/^200 /, ""));
      const ofController = parseExposition(await controller.metrics());
      const there = namesWithSeries(ofAgent, ofController);
      const missing = [...asked].filter((name) => !there.has(name) && !NOT_HERE.test(name));
      expect(missing).toEqual([]);
      expect([...ofAgent.values(), ...ofController.values()].flatMap(problemsOf)).toEqual([]);
    });

    await objects.remove("default", "isvc");
    await until(async () => {
      const both = (await agent.ask("/metrics")) + (await controller.metrics());
      expect(both).not.toMatch(/service="(chat|elsewhere|gone)"/);
    });

    const { items: events } = JSON.parse(await objects.raw("/apis/events.k8s.io/v1/events"));
    const announced = eventsOfOurs(events);
    expect(new Set(announced.map(({ regarding }) => regarding.kind))).toEqual(
      new Set(["Host", "InferenceReplica", "InferenceService", "Model"]),
    );
    const documented = inlineCode(pageOf("docs/observability.md"));
    for (const { reason, note } of announced) {
      expect(note.split(" ").length, `${reason}: ${note}`).toBeGreaterThan(2);
      expect([...documented, ...Object.keys(errorCatalog)], note).toContain(reason);
    }
    await rm(folder, { recursive: true, force: true });
  },
  300_000,
);
