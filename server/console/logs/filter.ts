/** Filters of log lines: a text, or a regular expression whose evaluation is limited in time. */
import { createContext, Script } from "node:vm";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import type { Clock } from "../../../src/util/ports.ts";

/** True for each line that is shown. Throws ConsoleRequestInvalid if the expression has used up its time. */
export type LineFilter = (lines: readonly string[]) => readonly boolean[];

const MAX_FILTER = 500;
/** An expression can take exponential time, and would stop the server for everyone. */
const BATCH_MS = 100;
/** Time of all batches of a log, with that of compiling the expression. A log that is followed gets 1 % of a core more. */
const BUDGET_MS = 300;
const REFILL = 0.01;
/** Compiling cannot be interrupted: repetitions inside of repetitions multiply what is compiled. */
const MAX_EXPANDED = 5_000;
const TEST = new Script("lines.map((line) => pattern.test(line))");

/** `/…/` and `/…/i` are regular expressions; anything else is a text, in any case of letters. */
export function createLineFilter(filter: string, { monotonicMs }: Pick<Clock, "monotonicMs">): LineFilter {
  if (filter === "") return (lines) => lines.map(() => true);
  if (filter.length > MAX_FILTER) throw invalid(`the filter is longer than ${MAX_FILTER} characters`);
  const expression = /^\/(.+)\/(i?)$/s.exec(filter);
  if (expression === null) {
    const wanted = filter.toLowerCase();
    return (lines) => lines.map((line) => line.toLowerCase().includes(wanted));
  }
  const [, source = "", flags = ""] = expression;
  if (expandedSize(source) > MAX_EXPANDED) throw invalid("the filter repeats too much: use smaller counts");
  let pattern: RegExp;
  try {
    pattern = new RegExp(source, flags);
  } catch (error) {
    throw invalid(`the filter is not a regular expression: ${errorMessage(error)}`);
  }
  const context = createContext({ pattern, lines: [] as readonly string[] });
  const openedMs = monotonicMs();
  let usedMs = 0;
  return (lines) => {
    const startedMs = monotonicMs();
    const leftMs = BUDGET_MS + (startedMs - openedMs) * REFILL - usedMs;
    context.lines = lines;
    try {
      if (leftMs < 1) throw new Error("no time is left");
      return TEST.runInContext(context, { timeout: Math.ceil(Math.min(BATCH_MS, leftMs)) });
    } catch {
      throw invalid("the filter takes too long");
    } finally {
      usedMs += monotonicMs() - startedMs;
    }
  };
}

const PART = /\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g;

/** Number of parts of the expression with each repeated as often as it is counted. */
function expandedSize(source: string): number {
  const outer: number[] = [];
  let size = 0;
  let last = 0;
  for (const [part, least, most] of source.matchAll(PART)) {
    if (part === "(") {
      outer.push(size);
      size = 0;
    } else if (part === ")") {
      last = size + 1;
      size = last + (outer.pop() ?? 0);
    } else {
      const times = timesOf(part, least, most);
      const added = times === undefined ? 1 : last * (times - 1);
      last = times === undefined ? 1 : last * times;
      size += added;
    }
  }
  return size;
}

/** Undefined for what is not a count. */
function timesOf(part: string, least?: string, most?: string): number | undefined {
  if (part === "+") return 2;
  return least === undefined ? undefined : Math.max(1, Number(least), Number(most ?? 0));
}

function invalid(message: string): MetalbridgeError {
  return new MetalbridgeError("ConsoleRequestInvalid", message, {
    summary: "use a simpler expression, or a text without slashes",
  });
}
