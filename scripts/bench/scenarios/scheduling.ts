/** The scheduler extender over 1,000 nodes on a real control plane: requests over TLS as kube-scheduler sends them, and its memory. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { createCertificate } from "../../../src/crypto/certificate.ts";
import { CONFIG_MAPS, NODES } from "../../../src/kube/kinds.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import {
  measuredModel,
  measuredService,
  measuredTable,
  NODE_CLASSES,
  servicePod,
} from "../../../test/bed/gpu-classes.ts";
import { must } from "../../../test/bed/must.ts";
import { until } from "../../../test/bed/until.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { NAMESPACE, openPlane, type Plane } from "../beds/plane.ts";
import { inParallel } from "../beds/scripted-fleet.ts";
import type { SchedulerJob } from "../workers/scheduler.ts";
import { megabytes } from "./idle.ts";

const WORKER = fileURLToPath(new URL("../workers/scheduler.ts", import.meta.url));

const NODE_COUNT = 1_000;
const IMAGES = 50;
/** The control plane's own work on new nodes is done then. */
const SETTLE_MS = 20_000;
/** The code is compiled meanwhile. */
const WARM_UPS = 200;
const PODS = 500;

export async function measureScheduling(): Promise<readonly ScenarioResult[]> {
  await using plane = await openPlane({ fsync: false });
  await createCluster(plane);
  const { key, cert } = createCertificate({ name: "extender", hosts: ["127.0.0.1"], isAuthority: true });
  const [keyFile, certFile] = [path.join(plane.dir, "tls.key"), path.join(plane.dir, "tls.crt")];
  writeFileSync(keyFile, key, { mode: 0o600 });
  writeFileSync(certFile, cert);
  const part = plane.start(
    "server",
    ...["--port", "0", "--health-port", "0", "--extender-port", "0"],
    ...["--extender-tls-cert", certFile, "--extender-tls-key", keyFile],
  );
  const port = await until(() => {
    const found = /"extender":(\d+)/.exec(part.log())?.[1];
    if (found === undefined) throw new Error(`the extender did not start:\n${part.log().slice(-2_000)}`);
    return Number(found);
  });
  const ask = (body: object, pods: number, warmUps: number) => {
    const bodyFile = path.join(plane.dir, "body.json");
    writeFileSync(bodyFile, JSON.stringify({ Pod: servicePod("bench", NAMESPACE), ...body }));
    return runWorker({ port, caFile: certFile, bodyFile, pods, warmUps });
  };
  const items = Array.from({ length: NODE_COUNT }, (_, index) => nodeAt(index));
  const named = { Nodes: null, NodeNames: items.map(({ metadata }) => metadata.name) };
  // Until the watches have shown everything: the nodes then differ.
  await until(async () => {
    const { scores } = await ask(named, 1, 0);
    if (scores.length < 3) throw new Error(`the extender does not know the nodes: ${scores}`);
  });
  await pause(SETTLE_MS);
  const memory = (when: string, limits = {}) =>
    measured(`server's memory ${when}, as extender`, "MB", [megabytes(part.pid, "VmRSS")], limits);
  const listed = memory("with 1,000 nodes", { max: 120 });
  const { samples: byName } = await ask(named, PODS, WARM_UPS);
  const after = memory(`after ${PODS} pods by names`, { max: 120 });
  const whole = { Nodes: { metadata: {}, items }, NodeNames: null };
  const megabytesOfNodes = Math.round(JSON.stringify(whole).length / 1e6);
  const { samples: byNode } = await ask(whole, PODS, WARM_UPS);
  return [
    measured("extender, 1,000 node names: filter + prioritize of a pod", "ms", byName, { p99: 10 }),
    measured(
      `extender, 1,000 whole Nodes (${megabytesOfNodes} MB): filter + prioritize of a pod`,
      "ms",
      byNode,
    ),
    listed,
    after,
    memory(`after ${PODS} pods by whole Nodes`),
  ];
}

/** As large as a Node of a kubelet with labels of feature discovery, without managedFields, which kube-scheduler drops. */
function nodeAt(index: number): Node {
  const classes = Object.entries(NODE_CLASSES);
  const [kind, { labels, capacity }] = classes[index % classes.length] ?? ["", NODE_CLASSES.l4];
  const name = `ip-10-${index >> 8}-${index & 255}-${kind}.eu-central-1.compute.internal`;
  const features = Array.from({ length: 40 }, (_, at) => [
    `feature.node.kubernetes.io/cpu-cpuid.X${at}`,
    "true",
  ]);
  const all = { cpu: "32", memory: "128Gi", "ephemeral-storage": "500Gi", pods: "110", ...capacity };
  const images = Array.from({ length: IMAGES }, (_, at) => ({
    names: [
      `registry.example.com/team/service-${at}@sha256:${"ab".repeat(32)}`,
      `registry.example.com/team/service-${at}:v1`,
    ],
    sizeBytes: 1e8 + at,
  }));
  const status = { capacity: all, allocatable: all, images } as Node["status"];
  return { metadata: { name, labels: { ...Object.fromEntries(features), ...labels } }, status };
}

async function createCluster({ client }: Plane): Promise<void> {
  await inParallel(NODE_COUNT, async (index) => {
    must(await client.create(NODES, { apiVersion: "v1", kind: "Node", ...nodeAt(index) } as Node));
  });
  const { status, ...model } = measuredModel(NAMESPACE);
  must(await client.create(MODELS, model));
  const { apiVersion, kind, metadata } = model;
  const applied = { apiVersion, kind, metadata, status } as unknown as Model;
  must(await client.apply(MODELS, applied, { manager: "bench", subresource: "status" }));
  must(await client.create(INFERENCE_SERVICES, measuredService(NAMESPACE)));
  must(await client.create(CONFIG_MAPS, { apiVersion: "v1", kind: "ConfigMap", ...measuredTable() }));
}

async function runWorker(job: SchedulerJob) {
  const { stdout } = await promisify(execFile)(process.execPath, [WORKER, JSON.stringify(job)], {
    maxBuffer: 64 * 1024 ** 2,
  });
  return JSON.parse(stdout) as { readonly samples: readonly number[]; readonly scores: readonly number[] };
}
