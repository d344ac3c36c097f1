/** Filters of log lines: a text, or a regular expression whose evaluation is limited in time. */
import { createContext, Script } from "node:vm";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { errorMessage } from "../../../src/util/error-message.ts";

/** True for each line that is shown. Throws ConsoleRequestInvalid if the expression takes too long. */
export type LineFilter = (lines: readonly string[]) => readonly boolean[];

const MAX_FILTER = 500;
/** Time limit per batch of lines. An expression can take exponential time, and would stop the server. */
const BATCH_MS = 100;
const TEST = new Script("lines.map((line) => pattern.test(line))");

/** `/…/` and `/…/i` are regular expressions; anything else is a text, in any case of letters. */
export function createLineFilter(filter: string): LineFilter {
  if (filter === "") return (lines) => lines.map(() => true);
  if (filter.length > MAX_FILTER) throw invalid(`the filter is longer than ${MAX_FILTER} characters`);
  const expression = /^\/(.+)\/(i?)$/s.exec(filter);
  if (expression === null) {
    const wanted = filter.toLowerCase();
    return (lines) => lines.map((line) => line.toLowerCase().includes(wanted));
  }
  const [, source = "", flags = ""] = expression;
  let pattern: RegExp;
  try {
    pattern = new RegExp(source, flags);
  } catch (error) {
    throw invalid(`the filter is not a regular expression: ${errorMessage(error)}`);
  }
  const context = createContext({ pattern, lines: [] as readonly string[] });
  return (lines) => {
    context.lines = lines;
    try {
      return TEST.runInContext(context, { timeout: BATCH_MS });
    } catch {
      throw invalid("the filter takes too long: use a simpler expression");
    }
  };
}

function invalid(message: string): MetalbridgeError {
  return new MetalbridgeError("ConsoleRequestInvalid", message);
}
