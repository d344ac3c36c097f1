/** Golden tests of screens: `<name>.input.yaml` goes in, `<name>.txt` must come out. UPDATE_GOLDEN=1 rewrites the answers. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

const INPUT = ".input.yaml";

/** One test per input file of the folder; `render` must be pure. */
export function testScreens(folder: string, render: (input: never) => string): void {
  const inputs = readdirSync(folder).filter((name) => name.endsWith(INPUT));
  expect(inputs.length).toBeGreaterThan(0);
  for (const name of inputs.sort()) {
    const answer = path.join(folder, name.replace(INPUT, ".txt"));
    test(name.slice(0, -INPUT.length), () => {
      const input = parse(readFileSync(path.join(folder, name), "utf8")) as never;
      const text = `${render(input)}\n`;
      if (process.env.UPDATE_GOLDEN === "1" || !existsSync(answer)) writeFileSync(answer, text);
      expect(text).toBe(readFileSync(answer, "utf8"));
    });
  }
}
