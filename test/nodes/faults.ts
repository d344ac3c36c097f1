/** Reads what users see of a service or Model: its phase with reason and message, and its Events. */
import { expect } from "vitest";
import { NAMESPACE } from "../bed/services.ts";
import type { UntilOptions } from "../bed/until.ts";
import type { PodsBed } from "./bed.ts";

/** Each pod downloads its weights, and asks for little. */
export const EPHEMERAL = { modelCache: { persistence: "Ephemeral" }, resources: { memory: "48Mi" } };

interface SeenEvent {
  readonly involvedObject: { readonly name: string };
  readonly reason: string;
  readonly series?: { readonly count: number };
}

export function faultsIn(bed: PodsBed) {
  const { objects } = bed.farm;
  /** `phase reason` in the order in which the controller saw them; `kind` is `model` or `service`. */
  const phasesOf = (kind: string, name: string): readonly string[] =>
    bed.farm
      .controller()
      .log()
      .split("\n")
      .filter((line) => line.includes('"msg":"phase changed"'))
      .map((line) => JSON.parse(line))
      .filter((line) => line[kind] === `${NAMESPACE}/${name}`)
      .map(({ phase, reason }) => `${phase} ${reason}`)
      // A pass that has not seen the last write yet repeats it.
      .filter((one, index, all) => one !== all[index - 1]);
  /** How often each Event of the reason was repeated. */
  const eventsOf = async (name: string, reason: string): Promise<readonly number[]> => {
    const { items }: { readonly items: readonly SeenEvent[] } = await objects.get(NAMESPACE, "events");
    return items
      .filter((event) => event.involvedObject.name === name && event.reason === reason)
      .map(({ series }) => series?.count ?? 1);
  };
  return {
    phasesOf,
    until: (name: string, reason: string, message: RegExp, phase = "Degraded", wait?: UntilOptions) =>
      bed.until(name, { phase, reason, message: expect.stringMatching(message) }, wait),
    untilReady: (...names: readonly string[]) =>
      Promise.all(names.map((name) => bed.until(name, { phase: "Ready" }))),
    /** Since it has crashed, nothing else was said, and that once. */
    expectSteadyCrash: async (name: string) => {
      const phases = phasesOf("service", name);
      const crashing = "Degraded PodCrashing";
      expect(phases.slice(phases.indexOf(crashing))).toEqual([crashing]);
      expect(await eventsOf(name, "PodCrashing")).toEqual([1]);
    },
    eventsOf,
    remove: async (...names: readonly string[]) => {
      for (const name of names) await objects.startRemoval(NAMESPACE, `isvc/${name}`, `model/${name}`);
    },
  };
}
