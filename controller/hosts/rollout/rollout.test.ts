import { describe } from "vitest";
import { testGoldens } from "../../../test/golden/golden.ts";
import { planHostsRollout, planRemovalsFirst } from "./rollout.ts";
import { inputOf, type ShortInput } from "./testing/words.ts";

interface GoldenInput extends ShortInput {
  /** Ordinals that found no host. */
  readonly unplaced?: readonly number[];
  /** Ordinals that would find no host even without the old replica. */
  readonly unplaceable?: readonly number[];
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, ({ unplaced, unplaceable = [], ...short }: GoldenInput) => {
    const input = inputOf(short);
    const plan = planHostsRollout(input);
    const fits = (ordinal: number) => !unplaceable.includes(ordinal);
    const sacrifices = planRemovalsFirst(input, plan, new Set(unplaced), fits);
    const removals = [...plan.removals, ...sacrifices].map(
      ({ replica, because }) => `${replica.metadata.name}: ${because}`,
    );
    const desiredSlots = plan.desiredSlots.map(
      ({ ordinal, revision, why }) => `${ordinal} ${revision} ${why}`,
    );
    return { desiredSlots, removals, state: plan.state };
  });
});
