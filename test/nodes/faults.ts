/** Reads what users see of a service or Model: its phase with reason and message, and its Events. */
import { expect } from "vitest";
import { NAMESPACE } from "../bed/services.ts";
import type { UntilOptions } from "../bed/until.ts";
import type { PodsBed } from "./bed.ts";

/** Each pod downloads its weights, and asks for little. */
export const EPHEMERAL = { modelCache: { persistence: "Ephemeral" }, resources: { memory: "48Mi" } };

export function faultsIn(bed: PodsBed) {
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
    const fields = `involvedObject.name=${name},reason=${reason}`;
    const args = ["get", "events", "-n", NAMESPACE, `--field-selector=${fields}`, "-o", "json"];
    const { items } = JSON.parse(await bed.kubectl(args));
    return items.map(({ series }: { readonly series?: { readonly count: number } }) => series?.count ?? 1);
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
      await bed.kubectl(["delete", "isvc,model", ...names, "-n", NAMESPACE, "--wait=false"]);
    },
  };
}
