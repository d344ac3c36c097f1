/** The command that an agent asks the sidecar of the skill to run, in the protocol of Sympozium's agent runner. Pure. */
import { z } from "zod";

const MAX_WORDS = 64;
const DEFAULT_SECONDS = 30;
const MAX_SECONDS = 120;

/** Fields that the agent runner writes into exec-request-ID.json. */
const requestSchema = z.looseObject({
  command: z.string().default(""),
  args: z.array(z.string()).nullish(),
  /** The words of a command, in place of `command`. */
  argv: z.array(z.string()).nullish(),
  /** Seconds. */
  timeout: z.number().nullish(),
  /** SkillPack whose sidecar runs the command; empty: any that can. */
  target: z.string().nullish(),
});

/** First words of the commands that read and change nothing. */
export const READING_COMMANDS = [
  ...["status", "get", "describe", "fit", "report", "version", "--version"],
  ...["catalog list", "catalog search", "models list", "host list", "rollout status", "rollout history"],
  // Anywhere else it could be the value of another option.
  "deploy --dry-run",
] as const;

/** A kubeconfig can name a program that is run to log in, and the agent can write one. */
const REFUSED_OPTIONS = /^--(kubeconfig|context)(=|$)/;

export type ExecDecision =
  /** Left to another sidecar of the pod. */
  | { readonly at: "other" }
  | { readonly at: "refused"; readonly why: string }
  | { readonly at: "run"; readonly args: readonly string[]; readonly timeoutMs: number };

/** `pack`: name of the SkillPack. Text that is not JSON yet is a request that the agent is still writing. */
export function decideExecRequest(text: string, pack: string): ExecDecision {
  const request = requestSchema.safeParse(parsed(text)).data;
  if (request === undefined) return { at: "other" };
  const target = (request.target ?? "").trim().toLowerCase();
  if (target !== "" && target !== pack.toLowerCase()) return { at: "other" };
  const words = request.argv?.length ? request.argv : wordsOf([request.command, ...(request.args ?? [])]);
  const isOurs = /^(metalbridge|llmfit-cluster-fit)\b/.test(request.argv?.[0] ?? request.command.trimStart());
  if (!isOurs && target === "") return { at: "other" };
  const why = words === undefined ? SHELL : refusalOf(words);
  if (why !== undefined || words === undefined) return { at: "refused", why: why ?? SHELL };
  const seconds = Math.min(MAX_SECONDS, Math.max(1, request.timeout || DEFAULT_SECONDS));
  return { at: "run", args: words.slice(1), timeoutMs: seconds * 1_000 };
}

const SHELL = "the sidecar runs one metalbridge command without a shell: no pipes, redirections or variables";

function refusalOf([program, ...args]: readonly string[]): string | undefined {
  if (program === "llmfit-cluster-fit")
    return "llmfit-cluster-fit creates probe pods, and the sidecar only reads; use metalbridge report";
  if (program !== "metalbridge") return `the sidecar has no ${program ?? "command"}; it runs metalbridge`;
  if (args.length > MAX_WORDS) return `a command has at most ${MAX_WORDS} words`;
  const option = args.find((word) => REFUSED_OPTIONS.test(word));
  if (option !== undefined)
    return `${option.split("=")[0]} is refused: the sidecar has its own ServiceAccount`;
  const line = `${args.join(" ")} `;
  if (READING_COMMANDS.some((one) => line.startsWith(`${one} `))) return undefined;
  return `the sidecar only reads: ${READING_COMMANDS.join(", ")}; print the command for the user instead`;
}

/** Words with quotes as a shell splits them; undefined for anything that only a shell can do. */
function wordsOf(parts: readonly string[]): readonly string[] | undefined {
  const text = parts.join(" ").trim();
  const word = /(?:'[^']*'|"[^"$`\\]*"|[^\s'"|&;<>()$`\\*?#~{}!])+/g;
  if (text.replace(word, "").trim() !== "") return undefined;
  return [...text.matchAll(word)].map(([one]) => one.replaceAll(/'([^']*)'|"([^"]*)"/g, "$1$2"));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
