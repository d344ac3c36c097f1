/** A farm for measurements: its installation is a copy, its control plane is watched, and its Hosts and Model are ready. */
import path from "node:path";
import { type TinyModelOptions, writeTinyModel } from "../../../local/demo/tiny-model.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { installRelease } from "../../../test/bed/release.ts";
import { startFleet, type TestFleet, type TestFleetOptions } from "../../../test/bed/test-fleet.ts";
import { isTrue, openPlane, type Plane } from "./plane.ts";

export interface Bed extends Plane {
  readonly farm: TestFleet;
}

export const BENCH_VERSION = "0.1.0-bench.1";

/** One host, on an address that an EndpointSlice may hold. */
export async function openBed(model: TinyModelOptions = {}): Promise<Bed> {
  const plane = await openPlane();
  return disposedOnFailure(plane, async () => {
    const network = await openNetwork([]);
    plane.atEnd(async () => network[Symbol.asyncDispose]());
    return addFleet(plane, { address: network.gateway }, model);
  });
}

/** Controller and agents run; resolves when every Host and the one Model are ready. */
export async function addFleet(
  plane: Plane,
  options: Pick<TestFleetOptions, "address" | "agents">,
  model: TinyModelOptions = {},
): Promise<Bed> {
  const { kubeconfig } = plane.controlPlane;
  const { program } = installRelease(path.join(plane.dir, "release"), BENCH_VERSION);
  const farm = await startFleet({ ...options, kubeconfig, program });
  plane.atEnd(async () => farm[Symbol.asyncDispose]());
  const source = path.join(farm.modelsDir, "bench.gguf");
  await writeTinyModel(source, model);
  const count = farm.agents.length;
  await plane.changed.until(`${count} Hosts that are ready`, () => {
    const ready = plane.hosts.list().filter(({ status }) => isTrue(status?.conditions, "Ready"));
    return ready.length === count || undefined;
  });
  await plane.createModel(source);
  return { ...plane, farm };
}

/** A farm that cannot be completed leaves nothing behind. */
export async function disposedOnFailure<T>(plane: Plane, build: () => Promise<T>): Promise<T> {
  try {
    return await build();
  } catch (error) {
    await plane[Symbol.asyncDispose]();
    throw error;
  }
}

export function isSliceReady(slice: EndpointSlice): boolean {
  return slice.endpoints?.some(({ conditions }) => conditions?.ready === true) === true;
}
