/** One host: control plane, controller and agent as processes, its weights on disk, services made and watched by the API. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import type { TinyModelOptions } from "../../cli/demo/tiny-model.ts";
import { createNamespacePair } from "../../test/cluster/network-namespace.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { type Farm, startFarm } from "../../test/system/farm.ts";
import { isTrue, openPlane, type Plane } from "./plane.ts";
import { installRelease } from "./release.ts";

export interface Bed extends Plane {
  readonly farm: Farm;
}

/** Everything runs, the Host and the one Model are ready. */
export async function openBed(model: TinyModelOptions = {}): Promise<Bed> {
  const plane = await openPlane();
  try {
    const pair = await createNamespacePair();
    plane.atEnd(pair.remove);
    const { kubeconfig } = plane.controlPlane;
    const program = await installRelease(path.join(plane.dir, "release"));
    const farm = await startFarm({ kubeconfig, address: pair.hostAddress, program });
    plane.atEnd(async () => farm[Symbol.asyncDispose]());
    mkdirSync(farm.modelsDir, { recursive: true });
    const source = path.join(farm.modelsDir, "bench.gguf");
    await writeTinyGguf(source, model);
    await plane.changed.until(
      "a Host that is ready",
      () => plane.hosts.list().some(({ status }) => isTrue(status?.conditions, "Ready")) || undefined,
    );
    await plane.createModel(source);
    return { ...plane, farm };
  } catch (error) {
    await plane[Symbol.asyncDispose]();
    throw error;
  }
}
