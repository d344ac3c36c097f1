/** A real Prometheus scrapes a real farm: targets are up, rules are evaluated, and every panel of every dashboard shows something. */
import path from "node:path";
import { expect, test } from "vitest";
import { until } from "../../bed/until.ts";
import { startCluster } from "../../cluster/cluster.ts";
import { root } from "../../docs/pages.ts";
import { findLlamaServer } from "../../fixtures/llama-server.ts";
import { alerts } from "../charts.ts";
import { startBusyFleet } from "./busy-fleet.ts";
import { countSeries, panelQueries, type Variables, variableQueries } from "./panels.ts";
import { needsPrometheus, prometheusFolder, promtool } from "./promtool.ts";
import { type Prometheus, startPrometheus } from "./server.ts";

const canRun = prometheusFolder !== undefined && findLlamaServer() !== undefined;
const rulesFile = path.join(root, "charts/metalbridge/rules.yaml");

/** What this farm does not have, and why. */
const EMPTY: Readonly<Record<string, string>> = {
  "Metalbridge / Density: GPU memory: {{kind}} {{node}}": "the host is no Mac",
  "Metalbridge / Farm: Hosts with a condition that needs attention": "the host is well",
  "Metalbridge / Farm: Reconciles per second: {{queue}} failed": "no reconcile fails",
  "Metalbridge / Service: Draft tokens accepted, and KV cache in use: {{replica}} KV cache":
    "llama-server no longer reports it",
};

/** Alerts about what is wrong in this farm on purpose; some are still pending. */
const EXPECTED = ["MetalbridgeServiceDown", "MetalbridgeWaitingForCapacity"];
/** Alerts that may fire for a while here: engines are started and killed, and get more requests than they have slots. */
const POSSIBLE = ["MetalbridgeReplicaNotReady", "MetalbridgeRequestsWait", "MetalbridgeServiceDegraded"];

interface Target {
  readonly scrapePool: string;
  readonly health: string;
  readonly lastError: string;
}

interface Rule {
  readonly name: string;
  readonly health: string;
  readonly lastError?: string;
  readonly state: string;
}

async function rulesOf(prometheus: Prometheus): Promise<readonly Rule[]> {
  const { groups } = (await prometheus.ask("rules")) as { groups: readonly { rules: readonly Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** Names of the queries without an answer, of dashboards that look at one of these services. */
async function emptyPanels(prometheus: Prometheus, services: readonly string[], from: number) {
  const asked = services.map(
    (service): Variables => ({ host: ".*", node: ".*", namespace: "default", service }),
  );
  const shown = new Map<string, number>();
  for (const query of asked.flatMap(panelQueries)) {
    const count = await countSeries(prometheus, query, from);
    shown.set(query.where, (shown.get(query.where) ?? 0) + count);
  }
  return [...shown].filter(([, count]) => count === 0).map(([where]) => where);
}

test.skipIf(!canRun)(
  `a farm in Prometheus, from its first scrape until nothing of its services is left${needsPrometheus}`,
  async () => {
    await using cluster = await startCluster();
    await using busy = await startBusyFleet(cluster.kubeconfig);
    const from = Date.now() / 1_000;
    await using prometheus = await startPrometheus(rulesFile, busy.jobs);
    const untilKilled = (times: number) =>
      until(
        async () => {
          const query = `metalbridge_replica_exits_total{reason="EngineKilled", service=~"chat|brief"} == ${times}`;
          // Two services, each seen by two jobs.
          const { result } = (await prometheus.ask("query", { query })) as { result: readonly unknown[] };
          expect(result).toHaveLength(4);
        },
        { everyMs: 250 },
      );
    await busy.apply("chat", "chat.gguf");
    await busy.apply("brief", "chat.gguf");
    await busy.apply("elsewhere", "chat.gguf", { placement: { hosts: ["mac-2"] } });
    await busy.apply("gone", "none.gguf");
    await busy.untilReady("chat");
    await busy.untilReady("brief");
    // An increase is seen only where a value was there before it; Prometheus' first scrapes are seconds away.
    await untilKilled(0);
    busy.killEngines();
    await untilKilled(1);
    await busy.untilReady("brief");
    await cluster.objects.remove("default", "isvc/brief");
    await busy.untilReady("chat");
    const clients = await busy.keepBusy("chat");

    await until(async () =>
      expect(await emptyPanels(prometheus, ["chat", "elsewhere"], from)).toEqual(Object.keys(EMPTY)),
    );
    for (const { where, label, selector } of variableQueries({ namespace: "default" })) {
      const values = await prometheus.ask(`label/${label}/values`, { "match[]": selector });
      expect(values, where).not.toEqual([]);
    }

    await until(
      async () => {
        const { activeTargets } = (await prometheus.ask("targets", { state: "active" })) as {
          activeTargets: readonly Target[];
        };
        expect(
          activeTargets.map(({ scrapePool, health, lastError }) => [scrapePool, health, lastError]).sort(),
        ).toEqual(busy.jobs.map(({ job_name }) => [job_name, "up", ""]).sort());
      },
      { everyMs: 250 },
    );

    await until(async () => {
      const rules = await rulesOf(prometheus);
      expect(rules.map(({ name }) => name)).toEqual(alerts().map(({ alert }) => alert));
      expect(rules.filter(({ health, lastError = "" }) => health !== "ok" || lastError !== "")).toEqual([]);
      const active = rules.filter(({ state }) => state !== "inactive").map(({ name }) => name);
      expect(active.filter((name) => !POSSIBLE.includes(name)).sort()).toEqual(EXPECTED);
    });

    for (const address of Object.values(busy.open)) {
      const text = await (await fetch(`http://${address}/metrics`)).text();
      expect(await promtool(["check", "metrics"], text)).toEqual({ code: 0, output: "" });
    }

    await clients[Symbol.asyncDispose]();
    await cluster.objects.remove("default", "isvc");
    await until(
      async () => {
        const query = 'count by (__name__) ({service=~"chat|brief|elsewhere|gone"})';
        expect(await prometheus.ask("query", { query })).toMatchObject({ result: [] });
      },
      { everyMs: 250 },
    );
    expect(prometheus.complaints()).toEqual([]);
  },
  600_000,
);
