/** Order of test files: a long file that starts last keeps one worker busy and the others idle, and long files side by side take the CPU from each other. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

interface Costs {
  readonly files: Readonly<Record<string, { readonly wallSeconds: number } | undefined>>;
}

/** What each file cost in a whole run (scripts/tests/costs.mjs). */
const COSTS = path.join(import.meta.dirname, "costs.json");
const LONG_SECONDS = 25;
/** Soaks have no committed costs, and take minutes by nature. */
const SOAK_SECONDS = 300;

/** Short files that start after each long one: enough to keep about half of the workers at long files. */
const SHORT_PER_LONG = 2;

export class LongestFirst extends BaseSequencer {
  /** Long files from the start, with short files between. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const costs = readCosts();
    const secondsOf = ({ moduleId }: TestSpecification) => {
      const known = costs?.files[path.relative(path.dirname(import.meta.dirname), moduleId)];
      return known?.wallSeconds ?? (moduleId.endsWith(".soak.test.ts") ? SOAK_SECONDS : 0);
    };
    const sorted = files.toSorted((one, other) => secondsOf(other) - secondsOf(one));
    const isLong = (file: TestSpecification) => secondsOf(file) >= LONG_SECONDS;
    const short = [
      ...sorted.filter((file) => !isLong(file) && needsCluster(file)),
      ...sorted.filter((file) => !isLong(file) && !needsCluster(file)),
    ];
    return [...sorted.filter(isLong).flatMap((file) => [file, ...short.splice(0, SHORT_PER_LONG)]), ...short];
  }
}

function readCosts(): Costs | undefined {
  return existsSync(COSTS) ? JSON.parse(readFileSync(COSTS, "utf8")) : undefined;
}

/** True if the file, by its name, may use a control plane. */
export function needsCluster({ moduleId }: { readonly moduleId: string }): boolean {
  return /\.(cluster|system|soak)\.test\.ts$|\/test\/(cluster|integration)\//.test(moduleId);
}
