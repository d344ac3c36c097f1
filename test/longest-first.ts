/** Order of test files: a long file that starts last keeps one worker busy and the others idle, and long files side by side take the CPU from each other. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Whole systems, dozens of real engines, many installations. */
const LONG = [
  /\/test\/(integration|nodes|console)\//,
  /\.engine\.test\.ts$/,
  /\/launchd\/install\.test\.ts$/,
];

/** Of those that start after each long one: as many as keep about half of the workers at long files. */
const SHORT_PER_LONG = 2;

export class LongestFirst extends BaseSequencer {
  /** Long files from the start, with short files between; vitest's own order, by earlier durations or else by size, decides the rest. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const long = sorted.filter(isLong);
    const short = [
      ...sorted.filter((file) => !isLong(file) && needsCluster(file)),
      ...sorted.filter((file) => !isLong(file) && !needsCluster(file)),
    ];
    const first = long.flatMap((file) => [file, ...short.splice(0, SHORT_PER_LONG)]);
    return [...first, ...short];
  }
}

/** True if the file, by its name, may use a control plane. */
export function needsCluster({ moduleId }: { readonly moduleId: string }): boolean {
  return /\.cluster\.test\.ts$|\/test\/(cluster|integration)\//.test(moduleId);
}

function isLong({ moduleId }: TestSpecification): boolean {
  return LONG.some((pattern) => pattern.test(moduleId));
}
