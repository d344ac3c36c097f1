/** Order of test files: whole systems and dozens of real engines first, since a long file that starts last keeps one worker busy and the others idle. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

export class LongestFirst extends BaseSequencer {
  /** Within a group of projects; vitest's own order, by earlier durations or else by size, decides the rest. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = (file: TestSpecification) =>
      file.project.name === "integration" || file.moduleId.endsWith(".engine.test.ts") ? 0 : 1;
    const group = (file: TestSpecification) => file.project.config.sequence.groupOrder;
    return sorted.toSorted((one, other) => group(one) - group(other) || isLong(one) - isLong(other));
  }
}
