/** Completes the word at the cursor: verbs, options, their choices, and names from the cluster. */
import { type Argument, Command, type Option } from "commander";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { withCluster } from "../cluster/cluster.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import type { Verb } from "../verbs.ts";

/** Kinds by the name of the argument in the usage of a verb. */
const NAMED: Readonly<Record<string, Kind<KubeObject>>> = {
  service: INFERENCE_SERVICES,
  replica: INFERENCE_REPLICAS,
  host: HOSTS,
  model: MODELS,
};
/** Short, because the user waits at the prompt. */
const NAMES_MS = 2_000;

/** `words` are the words after the program name. The last word is being typed, and may be empty. */
export async function completionsFor(
  verbs: readonly Verb[],
  words: readonly string[],
): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  const [name, ...rest] = words.slice(0, -1);
  const all =
    name === undefined
      ? verbs.map((verb) => verb.name)
      : await completeVerb(
          verbs.find((verb) => verb.name === name),
          rest,
          typed,
        );
  return all.filter((word) => word.startsWith(typed)).sort();
}

async function completeVerb(
  verb: Verb | undefined,
  before: readonly string[],
  typed: string,
): Promise<readonly string[]> {
  if (verb === undefined) return [];
  const root = new Command(verb.name);
  (await verb.load())(root);
  const { command, values, flags, pending } = readWords(root, before);
  if (pending !== undefined) return pending.argChoices ?? [];
  if (typed.startsWith("-")) return command.options.flatMap(({ long }) => long ?? []);
  if (command.commands.length > 0) return command.commands.map((one) => one.name());
  return completeArgument(command.registeredArguments[values], flags);
}

interface Words {
  /** The verb, or its subcommand from the words. */
  readonly command: Command;
  /** Number of given arguments. */
  readonly values: number;
  readonly flags: ClusterFlags;
  /** The option whose value comes next. */
  readonly pending: Option | undefined;
}

function readWords(root: Command, words: readonly string[]): Words {
  let command = root;
  let values = 0;
  let pending: Option | undefined;
  const flags: Record<string, string> = {};
  for (const word of words) {
    const inner = values === 0 ? command.commands.find((one) => one.name() === word) : undefined;
    if (pending !== undefined) {
      flags[pending.attributeName()] = word;
      pending = undefined;
    } else if (word.startsWith("-")) pending = valueOption(command, word);
    else if (inner === undefined) values += 1;
    else command = inner;
  }
  return { command, values, flags, pending };
}

/** The option that takes the next word as its value. */
function valueOption(command: Command, word: string): Option | undefined {
  const option = command.options.find(({ short, long }) => word === short || word === long);
  return option?.required === true || option?.optional === true ? option : undefined;
}

async function completeArgument(
  argument: Argument | undefined,
  flags: ClusterFlags,
): Promise<readonly string[]> {
  if (argument === undefined) return [];
  if (argument.argChoices !== undefined) return argument.argChoices;
  const kind = NAMED[argument.name()];
  return kind === undefined ? [] : namesOf(kind, flags);
}

/** Empty if the cluster cannot be reached, or does not answer in time. */
async function namesOf(kind: Kind<KubeObject>, flags: ClusterFlags): Promise<readonly string[]> {
  try {
    return await withCluster("completion", flags, async ({ client, namespace }) => {
      const timedOut = new Promise<undefined>((resolve) => {
        setTimeout(() => resolve(undefined), NAMES_MS).unref();
      });
      const result = await Promise.race([client.list(kind, kind.namespaced ? { namespace } : {}), timedOut]);
      return result?.ok === true ? result.value.items.map(({ metadata }) => metadata.name) : [];
    });
  } catch {
    return [];
  }
}
