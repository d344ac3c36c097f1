/** What needs a person: the object's own words, with remedy and command from the catalog of errors. Pure. */
import { type Condition, getCondition } from "../../../src/api/conditions.ts";
import type { ErrorEntry } from "../../../src/api/errors/entry.ts";
import { type ErrorCode, errorCatalog } from "../../../src/api/errors.ts";
import type { Attention } from "../../../src/console/rows.ts";

/** A case with the words of the object. */
export interface Finding {
  readonly level: Attention["level"];
  readonly reason: string;
  readonly message: string;
  readonly since?: string | undefined;
  /** Entry of the catalog, if the reason is not its code. */
  readonly code?: ErrorCode;
}

/** Names that the placeholders of commands stand for. */
export interface CommandNames {
  readonly namespace?: string | undefined;
  readonly service?: string;
  readonly model?: string;
  readonly host?: string | undefined;
  readonly node?: string;
}

/** Without the remedy if the message contains it. */
export function attentionOf(
  { level, reason, message, since, code }: Finding,
  names: CommandNames,
): Attention {
  const entry = catalogEntry(code ?? reason);
  const isTold = entry === undefined || saysWhatToDo(message, entry.do);
  return {
    reason,
    message: message === "" ? (entry?.what ?? "") : message,
    remedy: isTold ? undefined : entry.do,
    command: installOf(message) ?? commandFor(entry, names),
    since,
    level,
  };
}

/** The finding of a condition that has the bad status; undefined if it has another one. */
export function conditionFinding(
  conditions: readonly Condition[] | undefined,
  { type, bad, level, code }: BadCondition,
): Finding | undefined {
  const condition = getCondition(conditions, type);
  if (condition?.status !== bad) return undefined;
  const { reason, message, lastTransitionTime: since } = condition;
  return { level, reason, message, since, code };
}

/** A status of a condition that needs a person. */
export interface BadCondition {
  readonly type: string;
  readonly bad: Condition["status"];
  readonly level: Attention["level"];
  readonly code?: ErrorCode;
}

/** True if the case ends without a person. */
export function endsByItself(reason: string): boolean {
  return /^(wait\b|nothing to do\b)/.test(catalogEntry(reason)?.do ?? "");
}

function catalogEntry(code: string): ErrorEntry | undefined {
  return Object.hasOwn(errorCatalog, code) ? errorCatalog[code as ErrorCode] : undefined;
}

/** The placeholder of each kind follows a word that names the kind. */
const PLACEHOLDERS: readonly (readonly [RegExp, keyof CommandNames])[] = [
  [/(?<=\b(?:isvc|service|rollout \w+|httproute) )NAME\b|(?<=\/service=)NAME\b/g, "service"],
  [/(?<=\b(?:model|mdl) )NAME\b|(?<=\/model=)NAME\b/g, "model"],
  [/(?<=\b(?:host|drain|uncordon) )NAME\b|<host>/g, "host"],
  [/\bNODE\b/g, "node"],
  [/\bNAMESPACE\b|<namespace>/g, "namespace"],
];
const NAMESPACED = /\b(isvc|irep|pods|models?|mdl|service|secret|logs|rollout)\b/;

/** True for a message with a clause that asks for the same, such as "check …". */
function saysWhatToDo(message: string, remedy: string): boolean {
  const [verb] = remedy.split(" ", 1);
  return message.includes("To do: ") || message.includes(remedy) || message.includes(`; ${verb} `);
}

/** The command in a message about a missing runtime: "(install: brew …)", "install llama.cpp: brew …". */
function installOf(message: string): string | undefined {
  return /\binstall(?: [\w.-]+)?: ([^();]+)/.exec(message)?.[1];
}

/** What the page of the object shows or does. The raw object is not among it. */
const ON_PAGES = /^kubectl (?:describe|get|scale) (?:isvc|irep|mdl|models?|hosts?|nodes?|pods)\b(?!.*\byaml)/;

function commandFor(entry: ErrorEntry | undefined, names: CommandNames): string | undefined {
  const { command } = entry ?? {};
  return command === undefined || ON_PAGES.test(command) ? undefined : filledCommand(command, names);
}

/** Placeholders without a name stay. */
function filledCommand(command: string, names: CommandNames): string {
  const filled = PLACEHOLDERS.reduce((text, [pattern, kind]) => {
    const name = names[kind];
    return name === undefined ? text : text.replace(pattern, () => name);
  }, command);
  const { namespace } = names;
  const needsNamespace =
    namespace !== undefined && NAMESPACED.test(command) && !/ (-n|-A)\b|helm /.test(filled);
  return needsNamespace ? `${filled} -n ${namespace}` : filled;
}
