/** A fleet for measurements: a copied installation, a watched control plane, Hosts and a Model that are ready. */
import type { TinyModelOptions } from "../../../local/demo/tiny-model.ts";
import { isConditionTrue } from "../../../src/api/conditions.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { startFleet, type TestFleet, type TestFleetOptions } from "../../../test/bed/test-fleet.ts";
import { openPlane, type Plane } from "./plane.ts";

export interface Bed extends Plane {
  readonly fleet: TestFleet;
}

/** One host, on an address that an EndpointSlice may hold. */
export async function openBed(model: TinyModelOptions = {}): Promise<Bed> {
  return openOn({}, async (plane) => {
    const { gateway } = plane.use(await openNetwork([]));
    return addFleet(plane, { address: gateway }, model);
  });
}

/** Controller and agents run; resolves when every Host and the one Model are ready. */
export async function addFleet(
  plane: Plane,
  options: Pick<TestFleetOptions, "address" | "agents">,
  model: TinyModelOptions = {},
): Promise<Bed> {
  const { kubeconfig } = plane.controlPlane;
  const fleet = plane.use(await startFleet({ ...options, kubeconfig, program: plane.program }));
  const count = fleet.agents.length;
  await plane.changed.until(`${count} Hosts that are ready`, () => {
    const ready = plane.hosts.list().filter(({ status }) => isConditionTrue(status?.conditions, "Ready"));
    return ready.length === count || undefined;
  });
  await plane.createModel(fleet.modelsDir, model);
  return { ...plane, fleet };
}

/** Builds on a new control plane; a bed that cannot be completed leaves nothing behind. */
export async function openOn<T>(
  options: Parameters<typeof openPlane>[0],
  build: (plane: Plane) => Promise<T>,
): Promise<T> {
  const plane = await openPlane(options);
  try {
    return await build(plane);
  } catch (error) {
    await plane[Symbol.asyncDispose]();
    throw error;
  }
}
