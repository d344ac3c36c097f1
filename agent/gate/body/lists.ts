/** Reduces a daemon's list of models to the one that the service serves. */
import { parseJson } from "../../../src/util/parse-json.ts";

/** Clients choose names too, and no model has a longer one. */
const MAX_NAME = 1_024;

/** True if a name in a daemon's list means the model. Ollama adds a tag if none is given. */
export function sameModel(name: unknown, model: string): boolean {
  if (typeof name !== "string" || name.length > MAX_NAME) return false;
  const tagged = (text: string): string =>
    text.lastIndexOf(":") > text.lastIndexOf("/") ? text : `${text}:latest`;
  return name === model || tagged(name) === tagged(model);
}

/** The model appears under the service's name. Undefined if the body is not a list of models. */
export function narrowList(body: Buffer, model: string, service: string): string | undefined {
  const answer = parseJson(body.toString("utf8"));
  if (typeof answer !== "object" || answer === null) return undefined;
  const lists = Object.entries(answer).filter(([key]) => key === "data" || key === "models");
  const isServed = (entry: unknown): entry is Record<string, unknown> =>
    typeof entry === "object" &&
    entry !== null &&
    ["id", "name", "model"].some((key) => sameModel((entry as Record<string, unknown>)[key], model));
  const rename = (entry: Record<string, unknown>): object => {
    const names = ["id", "name", "model"].filter((key) => Object.hasOwn(entry, key));
    const { aliases: _, ...rest } = entry;
    return { ...rest, ...Object.fromEntries(names.map((key) => [key, service])) };
  };
  const narrowed = lists.map(([key, entries]) => [
    key,
    (Array.isArray(entries) ? entries : []).filter(isServed).map(rename),
  ]);
  return lists.length === 0 ? undefined : stringify({ ...answer, ...Object.fromEntries(narrowed) });
}

/** Undefined for a list that is nested too deeply to be written, although it could be read. */
function stringify(list: object): string | undefined {
  try {
    return JSON.stringify(list);
  } catch {
    return undefined;
  }
}
