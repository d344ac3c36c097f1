/** What examples/install grants is enough for the controller, and is what docs/add-a-host.md says of the agent. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { parseControllerConfig } from "../../controller/config.ts";
import { runController } from "../../controller/main.ts";
import { hostAccess, sharedRoles } from "../../src/api/access/roles.ts";
import type { Log } from "../../src/util/ports.ts";
import { until } from "../bed/until.ts";
import { type Bench, inferenceService, startBench } from "../controller/bench.ts";
import { ranged, serveModel } from "../fixtures/model-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { documentedRules, type Rule } from "./agent-rights.ts";

const roleSchema = z.looseObject({
  metadata: z.looseObject({ namespace: z.string().optional() }),
  rules: z.array(
    z.object({ apiGroups: z.array(z.string()), resources: z.array(z.string()), verbs: z.array(z.string()) }),
  ),
});

test("the agent's roles are the documented ones", () => {
  const roles = [...sharedRoles(), ...hostAccess("mac-1", "0")].filter(({ kind, metadata }) =>
    kind === "ClusterRole" ? metadata.name === "metalbridge-agent" : kind === "Role",
  );
  const rules: Rule[] = roles.flatMap((object) => {
    const { metadata, rules } = roleSchema.parse(object);
    const { namespace } = metadata;
    return rules.map((rule) => (namespace === undefined ? rule : { ...rule, namespace }));
  });
  expect(single(rules)).toEqual(single(documentedRules()));
});

test("the controller does all its work with the rights of the example", async () => {
  await using bench = await startBench();
  await bench.stopController();
  const { lines, controller } = await startWithExample(bench);
  const { objects } = bench.cluster;
  const mac = await bench.agent("mac-1");

  const ns = "rights";
  await objects.createNamespace(ns);
  const stringData = { HF_TOKEN: "sesame" };
  await objects.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "hub", namespace: ns },
    stringData,
  });
  const file = path.join(bench.cluster.dir, "tiny.gguf");
  await writeTinyGguf(file);
  const server = await serveModel(ranged(await readFile(file)));
  await bench.apply({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name: "tiny", namespace: ns },
    spec: {
      source: `${server.url}/tiny.gguf`,
      sourceSecretRef: { name: "hub" },
      hardware: { accelerator: "metal" },
    },
  });
  const ready = (replicas: number) =>
    bench.serviceUntil(ns, "chat", ({ status }) =>
      expect(status, lines.join("\n")).toMatchObject({ phase: "Ready", readyReplicas: replicas }),
    );
  await bench.apply(inferenceService(ns, "chat"));
  await ready(1);
  await bench.apply(inferenceService(ns, "chat", { replicas: 2, contextSize: 2048, priority: "high" }));
  await ready(2);

  mac.fallSilent();
  await objects.remove("", "host/mac-1");
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.readyReplicas).toBe(0));
  await objects.remove(ns, "isvc/chat");
  expect(await bench.replicas(ns)).toEqual([]);
  await objects.until(ns, "events", (events: { readonly involvedObject: { readonly name: string } }[]) =>
    expect(events.map(({ involvedObject }) => involvedObject.name)).toContain("chat"),
  );
  await controller.stop();
  expect(lines.filter((line) => /forbidden/i.test(line))).toEqual([]);
});

/** A controller under the example's account. */
async function startWithExample({ controllerKubeconfig: kubeconfig }: Bench) {
  const lines: string[] = [];
  const stop = new AbortController();
  let working = () => {};
  const isWorking = new Promise<void>((resolve) => {
    working = resolve;
  });
  const config = parseControllerConfig({ kubeconfig, healthPort: 0, allowLoopback: true });
  const running = runController({ config, log: collect(lines), signal: stop.signal, onWorking: working });
  await until(() => Promise.race([isWorking, running]));
  const end = async () => {
    stop.abort();
    await running;
  };
  return { lines, controller: { stop: end } };
}

function collect(lines: string[]): Log {
  const note = (data: object, message: string) => {
    lines.push(
      `${message} ${JSON.stringify(data, (_, value) => (value instanceof Error ? value.message : value))}`,
    );
  };
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
  return log;
}

/** One line per right, in order. */
function single(rules: readonly Rule[]): readonly string[] {
  const rights = rules.flatMap(({ apiGroups, resources, verbs, namespace }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.map(
          (verb) => `${group}/${resource} ${verb}${namespace === undefined ? "" : ` in ${namespace}`}`,
        ),
      ),
    ),
  );
  return rights.toSorted();
}
