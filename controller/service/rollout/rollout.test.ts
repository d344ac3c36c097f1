import { describe } from "vitest";
import { testGoldens } from "../../../test/golden/golden.ts";
import { planRollout, planSacrifices } from "./rollout.ts";
import { inputOf, type ShortInput } from "./testing/words.ts";

interface GoldenInput extends ShortInput {
  /** Ordinals that found no host. */
  readonly unplaced?: readonly number[];
  /** Ordinals that would find none either once the old replica was gone. */
  readonly hopeless?: readonly number[];
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, ({ unplaced, hopeless = [], ...short }: GoldenInput) => {
    const input = inputOf(short);
    const plan = planRollout(input);
    const fits = (ordinal: number) => !hopeless.includes(ordinal);
    const sacrifices = planSacrifices(input, plan, new Set(unplaced), fits);
    const told = [...plan.removals, ...sacrifices].map(
      ({ replica, because }) => `${replica.metadata.name}: ${because}`,
    );
    const wanted = plan.wanted.map(({ ordinal, revision, why }) => `${ordinal} ${revision} ${why}`);
    return { wanted, removals: told, state: plan.state };
  });
});
