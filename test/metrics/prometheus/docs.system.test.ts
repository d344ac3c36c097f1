/** Configurations of Prometheus in the documentation are some that Prometheus takes. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { allPages } from "../../docs/pages.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { needsPrometheus, prometheusFolder, promtool } from "./promtool.ts";

const configurations = allPages().flatMap((page) =>
  page.blocks
    .filter(({ text }) => /^(scrape_configs|rule_files|global):/m.test(text))
    .map(({ text, line }) => ({ where: `${page.path}:${line}`, text })),
);

test("there are some", () => expect(configurations.length).toBeGreaterThan(3));

test.skipIf(prometheusFolder === undefined).each(configurations)(
  `$where${needsPrometheus}`,
  async ({ text }) => {
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, "prometheus.yml");
    await writeFile(file, text);
    const { code, output } = await promtool(["check", "config", "--syntax-only", file]);
    expect(code, output).toBe(0);
  },
);
