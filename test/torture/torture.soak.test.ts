/** Fixed seeds of the torture. `npm run torture -- --seed N --minutes M` replays one with its timeline. */
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { ollama } from "../fixtures/ollama.ts";
import { FIXED_SEEDS } from "./plan/fixed-seeds.ts";
import { explain } from "./report/explain.ts";
import { loadRecording } from "./report/load-recording.ts";
import { torture } from "./torture.ts";

const MINUTE = 60_000;
/** A farm starts, comes right after each round, and is taken down. */
const AROUND_MINUTES = 4;

/** A soak that is ended from outside says nothing: undefined where there is time for it, else the reason for skipping it. */
function whyNoTime(minutes: number): string | undefined {
  const endBy = Number(process.env.METALBRIDGE_TESTS_END_BY ?? Number.POSITIVE_INFINITY) * 1_000;
  const endsAt = Date.now() + (minutes + AROUND_MINUTES) * MINUTE;
  return endsAt < endBy ? undefined : "would end after METALBRIDGE_TESTS_END_BY";
}

describeUnless(whyNoNodeNetwork(), "a farm under torture", () => {
  // Side by side, as many as `maxConcurrency` says: one alone leaves most of two cores idle.
  it.concurrent.for(FIXED_SEEDS)(
    "holds every invariant: seed $seed, $minutes minutes, $engine, $nodes nodes",
    { timeout: 20 * MINUTE },
    async ({ nodes, ...fixed }, { skip }) => {
      const { engine } = fixed;
      skip(engine === "ollama" && ollama === undefined, "no Ollama");
      const whyNot = nodes > 0 ? whyNoRealNode() : undefined;
      skip(whyNot !== undefined, whyNot);
      const late = whyNoTime(fixed.minutes);
      skip(late !== undefined, late);
      // What a run leaves in its temporary folder is removed; the recording of a failure is the only way to explain it.
      const outDir = path.join(packageRoot(), "node_modules/.cache/torture", String(fixed.seed));
      rmSync(outDir, { recursive: true, force: true });
      mkdirSync(outDir, { recursive: true });
      const lines: string[] = [];
      const report = await torture({ ...fixed, nodes, outDir, print: (line) => lines.push(line) });
      const recording = loadRecording(path.join(outDir, "events.jsonl"));
      const explained = report.violations.map((violation) => explain(violation, recording));
      expect(
        explained,
        `${explained.join("\n\n")}\n\nrecording and logs: ${outDir}\n${lines.slice(-5).join("\n")}`,
      ).toEqual([]);
      expect(report.requests.answered).toBeGreaterThan(300);
      expect(Object.keys(report.faults).length).toBeGreaterThan(5);
      rmSync(outDir, { recursive: true, force: true });
    },
  );
});
