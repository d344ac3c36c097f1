/** `metalbridge bench --submit`: the speed of a service's Model on one machine, as a BenchmarkResult that others can add as a fixture. */
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import { gpusOf } from "../../controller/workload/gpus.ts";
import {
  BENCHMARK_RUNS,
  BENCHMARK_TOKENS,
  BENCHMARK_WARMUPS,
  type BenchmarkResult,
  benchmarkResultSchema,
} from "../../src/api/benchmark.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, MODELS } from "../../src/api/kinds.ts";
import { subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { type Devices, deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { devicesOfHost } from "../../src/capacity/devices/host.ts";
import { devicesOfNode } from "../../src/capacity/devices/node.ts";
import { NODES, RESOURCE_SLICES } from "../../src/kube/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { EndpointTarget, Machine } from "../endpoint/target.ts";
import { engineBuild, measureSpeed } from "./speed.ts";

export interface Submission {
  readonly file: string;
  readonly service: InferenceService;
  readonly target: EndpointTarget;
  readonly machine: Machine;
  readonly deviceClass: string | undefined;
  readonly force: boolean;
  readonly signal: AbortSignal;
}

/** Throws BenchSubmitFailed, and what measuring throws. */
export async function submitResult(cluster: Cluster, submission: Submission): Promise<BenchmarkResult> {
  const { file, force, target, signal, machine } = submission;
  if (existsSync(file) && !force)
    throw new MetalbridgeError("BenchSubmitFailed", `${file} exists`, {
      summary: "name another file, or overwrite it with --force",
    });
  // Everything that can fail at once comes before the measurement.
  const identity = await identityOf(cluster, submission);
  const plan = { warmups: BENCHMARK_WARMUPS, runs: BENCHMARK_RUNS, tokens: BENCHMARK_TOKENS };
  const speed = await measureSpeed({ target, plan, signal });
  const build = (await engineBuild(target, signal)) ?? identity.build;
  if (build === undefined)
    throw new MetalbridgeError(
      "BenchSubmitFailed",
      `the engine on ${machine.name} does not report its version`,
    );
  const measuredAt = new Date().toISOString();
  const result = benchmarkResultSchema.parse({
    ...identity.known,
    build,
    measuredAt,
    tool: "requests",
    ...speed,
  });
  const text = /\.ya?ml$/i.test(file) ? stringify(result) : `${JSON.stringify(result, undefined, 2)}\n`;
  await writeFile(file, text);
  return result;
}

async function identityOf(cluster: Cluster, { service, machine, deviceClass }: Submission) {
  const { spec, status } = service;
  const model = await findObject(cluster, MODELS, spec.modelRef);
  const runtime = status?.runtime ?? spec.runtime;
  const { devices, versions, gpusPerPod } = await machineOf(cluster, machine, gpusOf(model, spec).count);
  const found = deviceClass ?? deviceClassOf(devices);
  if (found === undefined)
    throw new MetalbridgeError("BenchSubmitFailed", `the class of ${machine.name} is not known`, {
      summary: "name it, for example nvidia-l40s",
      command: "metalbridge bench SERVICE --submit FILE --device-class CLASS",
    });
  const subject = runtime && subjectOf(model, service, { runtime, gpusPerPod });
  if (runtime === undefined || subject === undefined)
    throw new MetalbridgeError(
      "BenchSubmitFailed",
      `Model ${spec.modelRef} is not resolved yet, or does not generate tokens`,
    );
  return {
    build: versions.get(runtime),
    known: {
      model: model.spec.source,
      sha256: model.status?.sha256,
      quantization: model.spec.quantization ?? model.status?.gguf?.quantization,
      sizeBytes: model.status?.sizeBytes,
      deviceClass: found,
      machine: machine.name,
      runtime,
      settings: subject.settings,
    },
  };
}

interface MachineFacts {
  readonly devices: Devices;
  readonly versions: ReadonlyMap<string, string | undefined>;
  readonly gpusPerPod?: number;
}

async function machineOf(
  cluster: Cluster,
  { kind, name }: Machine,
  gpusPerPod: number,
): Promise<MachineFacts> {
  if (kind === "Host") {
    const host = await findObject(cluster, HOSTS, name);
    const versions = new Map((host.status?.runtimes ?? []).map(({ name, version }) => [name, version]));
    return { devices: devicesOfHost(host), versions };
  }
  const node = await findObject(cluster, NODES, name);
  const slices = await listAll(cluster, RESOURCE_SLICES, { fieldSelector: `spec.nodeName=${name}` });
  return { devices: devicesOfNode(node, slices, undefined), versions: new Map(), gpusPerPod };
}
