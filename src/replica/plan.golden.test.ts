/** Golden plans: golden/*.input.yaml in, *.plan.yaml out. `UPDATE_GOLDEN=1` writes them anew. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import type { Desired, Observed } from "./observed.ts";
import { planReplica } from "./plan.ts";
import { nothingKnown, SERVE } from "./testing/facts.ts";

interface Case {
  readonly case: string;
  readonly wanted?: Partial<Desired> | "absent" | "unknown";
  readonly observed?: Partial<Observed>;
}

interface Input {
  readonly now: number;
  readonly observed: Partial<Observed>;
  readonly cases: readonly Case[];
}

const folder = join(import.meta.dirname, "golden");
const inputs = readdirSync(folder).filter((name) => name.endsWith(".input.yaml"));

describe.each(inputs)("%s", (name) => {
  const input = parse(readFileSync(join(folder, name), "utf8"), { merge: true }) as Input;
  const path = join(folder, name.replace(".input.yaml", ".plan.yaml"));
  const plans = input.cases.map((one) => ({ case: one.case, plan: planOf(input, one) }));

  it("has the plans on record", () => {
    const text = stringify(plans, { lineWidth: 0 });
    if (process.env.UPDATE_GOLDEN === "1" || !existsSync(path)) writeFileSync(path, text);
    expect(text).toBe(readFileSync(path, "utf8"));
  });
});

function planOf(input: Input, one: Case): ReturnType<typeof planReplica> {
  const wanted = typeof one.wanted === "string" ? one.wanted : { ...SERVE, ...one.wanted };
  const { record, ...observed } = { ...nothingKnown(), ...input.observed, ...one.observed };
  // YAML says "none" as null.
  return planReplica(wanted, { ...observed, ...(record ? { record } : {}) }, input.now);
}
