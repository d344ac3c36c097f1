/** `metalbridge bench --submit`: the speed of a service's Model on one machine, as a BenchmarkResult that others can add as a fixture. */

import { existsSync } from "node:fs";
import { access, constants, writeFile } from "node:fs/promises";
import path from "node:path";
import { stringify } from "yaml";
import type { z } from "zod";
import { gpusOf } from "../../controller/pods/workload/gpus.ts";
import {
  BENCHMARK_RUNS,
  BENCHMARK_TOKENS,
  BENCHMARK_WARMUPS,
  type BenchmarkResult,
  benchmarkResultSchema,
} from "../../src/api/benchmark.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { HOSTS, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { identityOfModel, subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { type Devices, deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { devicesOfHost } from "../../src/capacity/devices/host.ts";
import { NODES } from "../../src/kube/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject } from "../cluster/find.ts";
import { describeNodes } from "../cluster/nodes.ts";
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

/** The part of a result that is known before the measurement. */
const identitySchema = benchmarkResultSchema.pick({
  ...{ model: true, sha256: true, quantization: true, sizeBytes: true },
  ...{ build: true, deviceClass: true, machine: true, runtime: true, settings: true },
});
type Identity = z.output<typeof identitySchema>;

/** Throws BenchSubmitFailed, and what measuring throws. */
export async function submitResult(cluster: Cluster, submission: Submission): Promise<BenchmarkResult> {
  const { file, target, signal } = submission;
  // Everything that can fail at once comes before the measurement.
  await checkFile(submission);
  const known = await identityOf(cluster, submission);
  const plan = { warmups: BENCHMARK_WARMUPS, runs: BENCHMARK_RUNS, tokens: BENCHMARK_TOKENS };
  const speed = await measureSpeed({ target, plan, signal });
  const result = { ...known, measuredAt: new Date().toISOString(), tool: "requests", ...speed } as const;
  const text = /\.ya?ml$/i.test(file) ? stringify(result) : `${JSON.stringify(result, undefined, 2)}\n`;
  await writeFile(file, text);
  return result;
}

async function checkFile({ file, force }: Submission): Promise<void> {
  if (existsSync(file) && !force)
    throw new MetalbridgeError("BenchSubmitFailed", `${file} exists`, {
      summary: "name another file, or overwrite it with --force",
    });
  const folder = path.dirname(file);
  await access(folder, constants.W_OK).catch(() => {
    throw new MetalbridgeError("BenchSubmitFailed", `${folder} is not a folder that can be written to`);
  });
}

async function identityOf(cluster: Cluster, submission: Submission): Promise<Identity> {
  const { service, machine, deviceClass, target, signal } = submission;
  const { spec, status } = service;
  const model = await findObject(cluster, MODELS, mainModelOf(spec));
  const runtime = status?.runtime ?? spec.runtime;
  const { devices, versions, gpusPerPod } = await machineOf(cluster, machine, gpusOf(model, spec).count);
  const found = deviceClass ?? deviceClassOf(devices);
  if (found === undefined)
    throw new MetalbridgeError("BenchSubmitFailed", `the class of ${machine.name} is not known`, {
      summary: "name it, for example nvidia-l40s",
      command: "metalbridge bench SERVICE --submit FILE --device-class CLASS",
    });
  const isPlain = (spec.extraArgs ?? []).length === 0;
  const subject = runtime && isPlain ? subjectOf(model, service, { runtime, gpusPerPod }) : undefined;
  if (runtime === undefined || subject === undefined)
    throw new MetalbridgeError(
      "BenchSubmitFailed",
      `Model ${mainModelOf(spec)} is not resolved yet, does not generate tokens, or runs with tensorOverrides or extraArgs`,
    );
  const build = (await engineBuild(target, signal)) ?? versions.get(runtime);
  if (build === undefined)
    throw new MetalbridgeError(
      "BenchSubmitFailed",
      `the engine on ${machine.name} does not report its version`,
    );
  return checkedIdentity(model, {
    build,
    deviceClass: found,
    machine: machine.name,
    runtime,
    settings: subject.settings,
  });
}

/** Without credentials of the source, as the file is shared. Throws BenchSubmitFailed. */
export function checkedIdentity(
  model: Model,
  measured: Pick<BenchmarkResult, "build" | "deviceClass" | "machine" | "runtime" | "settings">,
): Identity {
  const { data, error } = identitySchema.safeParse({
    ...identityOfModel(model),
    sizeBytes: model.status?.sizeBytes,
    ...measured,
  });
  if (data !== undefined) return data;
  const [issue] = error.issues;
  throw new MetalbridgeError("BenchSubmitFailed", `${issue?.path.join(".")}: ${issue?.message}`);
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
  const [{ devices } = {}] = await describeNodes(cluster, [node]);
  return { devices: devices ?? {}, versions: new Map(), gpusPerPod };
}
