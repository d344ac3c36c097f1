/**
 * What a condition asks the user to do shows within seconds of being done, whatever it is: one row for each kind of correction.
 *
 * CPU: thirty mistakes fail for 35 s, so that their delays have grown, on a whole system of seven agents.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Condition } from "../../src/api/conditions.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import type { Untyped } from "../bed/objects.ts";
import { NAMESPACE } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type Origin, startOrigin } from "../fixtures/origin.ts";
import { type BadFleet, startBadFleet } from "./bad-fleet.ts";
import { correctionRows, type Row } from "./correction-rows.ts";

/** Five seconds for the correction, and as much again for machines on which it takes longer. */
const SHOWN_MS = 10_000;
/** On a machine that is slower still, all corrections are: one that waits for its delay takes many times as long as the others. */
const TIMES_THE_MEDIAN = 5;
/** Before the first correction: delays that double are longer than what is allowed by then. */
const FAILING_MS = 35_000;
/** Each retry begins with one of these, whether or not anything was corrected. */
const RETRYING = [
  "AdmittingMemory",
  "DetectingRuntime",
  "DownloadingModel",
  "ReadingSource",
  "ResolvingModel",
];
/** Beside each other, and not so many that they wait for each other's engines. */
const AT_ONCE = 5;

describeUnless(whyNoNodeNetwork(), "a farm whose users do what its conditions ask for", () => {
  let bad: BadFleet;
  let origin: Origin;
  let rows: readonly Row[];

  beforeAll(async () => {
    bad = await startBadFleet();
    origin = await startOrigin();
    rows = await correctionRows(bad, origin);
  });
  afterAll(async () => {
    await origin?.[Symbol.asyncDispose]();
    await bad?.[Symbol.asyncDispose]();
  });

  /** Calls `check` with what the row shows, now and after each change, until it does not throw. */
  const untilShown = (row: Row, check: (shown: Shown | undefined) => void) =>
    row.kind === "InferenceReplica"
      ? bad.farm.objects.until(namespaceOf(row), "irep", ([found]) => check(found?.status), {
          labelSelector: `${LABEL_SERVICE}=${row.name}`,
        })
      : bad.farm.objects.until(namespaceOf(row), `${wordOf(row)}/${row.name}`, (found) =>
          check(shownBy(row, found)),
        );

  const untilWell = (row: Row) =>
    bad.farm.objects.until(namespaceOf(row), `${wordOf(row)}/${row.name}`, (found) =>
      expect(isWell(row, found), row.name).toBe(true),
    );

  /** How long after the correction the message is another one. */
  async function shownAfterMs(row: Row): Promise<number> {
    await row.correct();
    const correctedAt = performance.now();
    await untilShown(row, (shown) => expect([row.reason, ...RETRYING]).not.toContain(shown?.reason));
    return Math.round(performance.now() - correctedAt);
  }

  async function someAtOnce(work: (row: Row) => Promise<void>): Promise<void> {
    for (let first = 0; first < rows.length; first += AT_ONCE)
      await Promise.all(rows.slice(first, first + AT_ONCE).map(work));
  }

  it("follows each correction within seconds, however often it failed before", async ({ annotate }) => {
    await someAtOnce(async (row) => {
      await row.break();
      await untilShown(row, (shown) => {
        expect(shown?.reason, row.name).toBe(row.reason);
        for (const part of row.says ?? []) expect(shown?.message).toContain(part);
      });
    });
    const failingSince = performance.now();
    const haveFailed = () => expect(performance.now() - failingSince).toBeGreaterThan(FAILING_MS);
    await until(haveFailed, { timeoutMs: 2 * FAILING_MS });
    // An attempt may fail otherwise on a busy machine; the one after it must not.
    for (const row of rows)
      await untilShown(row, (shown) => expect([row.reason, ...RETRYING], row.name).toContain(shown?.reason));
    const times = new Map<string, number>();
    await someAtOnce(async (row) => {
      times.set(`${row.name} (${row.reason})`, await shownAfterMs(row));
    });
    const lines = [...times].map(([name, ms]) => `${name}: ${ms} ms`);
    await annotate(lines.join("\n"));
    const median = [...times.values()].sort((a, b) => a - b)[Math.floor(times.size / 2)] ?? 0;
    const limit = Math.max(SHOWN_MS, TIMES_THE_MEDIAN * median);
    expect(
      [...times].filter(([, ms]) => ms > limit).map(([name, ms]) => `${name}: ${ms} of ${limit} ms`),
    ).toEqual([]);
    await Promise.all(rows.filter(({ becomesWell }) => becomesWell !== false).map(untilWell));
  });
});

interface Shown {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}

/** Reason and message, where the row has them. */
function shownBy({ kind }: Row, found: Untyped): Shown | undefined {
  if (kind === "Model" || kind === "InferenceService") return found?.status;
  const wanted = kind === "Host" ? "Ready" : kind;
  return found?.status?.conditions?.find(({ type }: Condition) => type === wanted);
}

function isWell({ kind }: Row, found: Untyped): boolean {
  const wanted = kind === "Prefetched" ? kind : "Ready";
  const condition = found?.status?.conditions?.find(({ type }: Condition) => type === wanted);
  return kind === "Host" || kind === "Prefetched"
    ? condition?.status === "True"
    : found?.status?.phase === "Ready";
}

function namespaceOf({ kind, namespace = NAMESPACE }: Row): string {
  return kind === "Host" ? "" : namespace;
}

/** The kind whose object shows whether the row is well; for a replica, its service. */
function wordOf({ kind }: Row): string {
  if (kind === "Host") return "mbhost";
  return kind === "Model" || kind === "Prefetched" ? "mdl" : "isvc";
}
