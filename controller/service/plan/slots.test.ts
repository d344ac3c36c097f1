import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { planSacrifices, planSlots, type SlotsInput } from "./slots.ts";

/** A replica in one word: `<ordinal> <revision> <state>`; state is ready, starting, silent (Ready on a silent host) or leaving. */
interface ShortInput {
  readonly want: number;
  readonly revision?: string;
  readonly maxSurge?: number;
  readonly maxUnavailable?: number;
  readonly replicas: readonly string[];
  /** Names as the words say them. */
  readonly displaced?: readonly string[];
  readonly unplaced?: readonly number[];
}

function replica(word: string): InferenceReplica {
  const [ordinal = "", revision = "", state = ""] = word.split(" ");
  const isUp = state === "ready" || state === "silent";
  const reachable = { type: "HostReachable", status: state === "silent" ? "False" : "True" };
  return {
    metadata: {
      name: `chat-${ordinal}-${revision}`,
      ...(state === "leaving" ? { deletionTimestamp: "now" } : {}),
    },
    spec: { template: { revision } },
    status: { phase: isUp ? "Ready" : "Starting", conditions: [reachable] },
  } as unknown as InferenceReplica;
}

function full(short: ShortInput): SlotsInput {
  const { want, revision, maxSurge = 1, maxUnavailable = 1, displaced = [] } = short;
  const replicas = short.replicas.map(replica);
  return { want, revision, maxSurge, maxUnavailable, replicas, displaced: new Set(displaced) };
}

describe("golden", () => {
  testGoldens(`${import.meta.dirname}/golden`, (short: ShortInput) => {
    const input = full(short);
    const { wanted, removals } = planSlots(input);
    const sacrifices = planSacrifices(input, new Set(short.unplaced));
    const told = [...removals, ...sacrifices].map((one) => `${one.replica.metadata.name}: ${one.because}`);
    return { wanted: wanted.map(({ ordinal, why }) => `${ordinal} ${why}`), removals: told };
  });
});

const words = fc.array(
  fc
    .tuple(
      fc.integer({ min: 0, max: 4 }),
      fc.constantFrom("aa", "bb"),
      fc.constantFrom("ready", "starting", "silent", "leaving"),
    )
    .map((parts) => parts.join(" ")),
  { maxLength: 10 },
);

describe("of any service", () => {
  const anyInput = fc.record({
    want: fc.integer({ min: 0, max: 4 }),
    revision: fc.constantFrom("aa", "bb", undefined),
    maxSurge: fc.integer({ min: 0, max: 2 }),
    maxUnavailable: fc.integer({ min: 0, max: 2 }),
    replicas: words,
    unplaced: fc.array(fc.integer({ min: 0, max: 4 })),
  });

  test("a slot that answers keeps answering, but for what maxUnavailable allows", () => {
    fc.assert(
      fc.property(anyInput, ({ revision, ...rest }) => {
        const short = revision === undefined ? rest : { ...rest, revision };
        const input = full(short);
        const removed = new Set(
          [...planSlots(input).removals, ...planSacrifices(input, new Set(short.unplaced))].map(
            (one) => one.replica,
          ),
        );
        let lost = 0;
        for (let ordinal = 0; ordinal < input.want; ordinal += 1) {
          const here = short.replicas
            .map((word, index) => ({ word, one: input.replicas[index] }))
            .filter(({ word }) => word.startsWith(`${ordinal} `) && word.endsWith(" ready"));
          const left = here.filter(({ one }) => one !== undefined && !removed.has(one));
          if (here.length > 0 && left.length === 0) lost += 1;
        }
        expect(lost).toBeLessThanOrEqual(short.maxUnavailable);
      }),
    );
  });

  test("without a revision nothing is made and nothing of the slots is taken away", () => {
    fc.assert(
      fc.property(anyInput, ({ revision: _, ...rest }) => {
        const { wanted, removals } = planSlots(full(rest));
        expect(wanted).toEqual([]);
        for (const { because } of removals) expect(because).toContain("scaled down");
      }),
    );
  });
});
