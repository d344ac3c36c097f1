/** Golden tests of planners: `<name>.input.yaml` goes in, `<name>.plan.yaml` must come out. UPDATE_GOLDEN=1 rewrites the answers. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";

const INPUT = ".input.yaml";

/** One test per input file of the folder; `plan` must be pure. */
export function testGoldens(folder: string, plan: (input: never) => unknown): void {
  const inputs = readdirSync(folder).filter((name) => name.endsWith(INPUT));
  expect(inputs.length).toBeGreaterThan(0);
  for (const name of inputs.sort()) {
    const answer = path.join(folder, name.replace(INPUT, ".plan.yaml"));
    test(name.slice(0, -INPUT.length), () => {
      const input = parse(readFileSync(path.join(folder, name), "utf8")) as never;
      const text = stringify(plan(input), { lineWidth: 110, aliasDuplicateObjects: false });
      if (process.env.UPDATE_GOLDEN === "1" || !existsSync(answer)) writeFileSync(answer, text);
      expect(text).toBe(readFileSync(answer, "utf8"));
    });
  }
}
