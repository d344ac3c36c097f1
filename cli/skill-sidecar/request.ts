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
  workDir: z.string().nullish(),
  /** SkillPack whose sidecar runs the command; empty: any that can. */
  target: z.string().nullish(),
});

const ANY = "-n --namespace -o --output -h --help";
const LISTED = "--limit --catalog";

/**
 * First words of the commands that read and change nothing, and the options that may follow, besides `ANY`: none that names a
 * credential (a kubeconfig can name a program that is run to log in, and the agent can write one) or that needs the right to watch.
 */
export const READING_COMMANDS: Readonly<Record<string, string>> = {
  status: "",
  get: "-A --all-namespaces -l --selector",
  describe: "",
  fit: `-f --filename --host --memory --chip --gpu-cores --use-case --min-fit --compat --explain ${LISTED} -c --context
    -s --slots --cache-type --cache-type-k --cache-type-v --unified-kv --prompt-cache --batch --ubatch --flash-attention
    --quantization --draft --draft-tokens --priority --selector --score-weights`,
  report: "--markdown --catalog",
  version: "",
  "--version": "",
  "catalog list": LISTED,
  "catalog search": LISTED,
  "models list": "--host -A --all-hosts",
  "host list": "",
  "rollout status --watch=false": "",
  "rollout history": "--revision",
  // Anywhere else it could be the value of another option.
  "deploy --dry-run":
    "--name --runtime --quantization --replicas --context-size --slots --priority --mode --secret --catalog",
};

export type ExecDecision =
  /** Left to another sidecar of the pod. */
  | { readonly at: "other" }
  | { readonly at: "refused"; readonly why: string }
  /** `workDir` is as the agent names it: it may be missing, or anywhere. */
  | {
      readonly at: "run";
      readonly args: readonly string[];
      readonly timeoutMs: number;
      readonly workDir: string;
    };

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
  return { at: "run", args: words.slice(1), timeoutMs: seconds * 1_000, workDir: request.workDir ?? "" };
}

const SHELL = "the sidecar runs one metalbridge command without a shell: no pipes, redirections or variables";

function refusalOf([program, ...args]: readonly string[]): string | undefined {
  if (program === "llmfit-cluster-fit")
    return "llmfit-cluster-fit creates probe pods, and the sidecar only reads; use metalbridge report";
  if (program !== "metalbridge") return `the sidecar has no ${program ?? "command"}; it runs metalbridge`;
  if (args.length > MAX_WORDS) return `a command has at most ${MAX_WORDS} words`;
  const line = `${args.join(" ")} `;
  const known = Object.keys(READING_COMMANDS);
  const command = known.find((one) => line.startsWith(`${one} `));
  if (command === undefined)
    return `the sidecar only reads: ${known.join(", ")}; print the command for the user instead`;
  const allowed = `${ANY} ${READING_COMMANDS[command]}`.trim().split(/\s+/);
  const options = args.slice(command.split(" ").length).filter((word) => word.startsWith("-"));
  const option = options.map((word) => word.replace(/=.*$/s, "")).find((one) => !allowed.includes(one));
  return option && `${option} is refused: the sidecar runs ${command} with ${allowed.join(", ")}`;
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
