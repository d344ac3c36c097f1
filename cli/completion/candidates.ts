/** Completes the word at the cursor: verbs, options, their choices, and names from the cluster. */
import { type Argument, Command, type Option } from "commander";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { withCluster } from "../cluster/cluster.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { kindOfWord, splitKind } from "../cluster/kinds.ts";
import type { Verb } from "../verbs.ts";

/** Kinds by the name of the argument in the usage of a verb. */
const NAMED: Readonly<Record<string, readonly Kind<KubeObject>[]>> = {
  service: [INFERENCE_SERVICES],
  replica: [INFERENCE_REPLICAS, INFERENCE_SERVICES],
  host: [HOSTS],
  model: [MODELS],
  object: [INFERENCE_REPLICAS, INFERENCE_SERVICES],
};
/** Short, because the user waits at the prompt. */
const NAMES_MS = 2_000;

/** `words` are the words after the program name. The last word is being typed, and may be empty. */
export async function completionsFor(
  verbs: readonly Verb[],
  words: readonly string[],
): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  const [name, ...rest] = words.slice(0, -1).filter((word, at) => at > 0 || word !== "help");
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
  return completeArgument(command.registeredArguments[values.length], { flags, typed, last: values.at(-1) });
}

interface Words {
  /** The verb, or its subcommand from the words. */
  readonly command: Command;
  /** The given arguments. */
  readonly values: readonly string[];
  readonly flags: ClusterFlags;
  /** The option whose value comes next. */
  readonly pending: Option | undefined;
}

function readWords(root: Command, words: readonly string[]): Words {
  let command = root;
  const values: string[] = [];
  let pending: Option | undefined;
  const flags: Record<string, string> = {};
  for (const word of words) {
    const inner = values.length === 0 ? command.commands.find((one) => one.name() === word) : undefined;
    if (pending !== undefined) {
      flags[pending.attributeName()] = word;
      pending = undefined;
    } else if (word.startsWith("-")) pending = valueOption(command, word);
    else if (inner === undefined) values.push(word);
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
  { flags, typed, last = "" }: { flags: ClusterFlags; typed: string; last: string | undefined },
): Promise<readonly string[]> {
  if (argument === undefined) return [];
  if (argument.argChoices !== undefined) return argument.argChoices;
  const kinds = NAMED[argument.name()] ?? [];
  const named = splitKind(typed);
  if (named !== undefined && kinds.length > 0) {
    const prefix = typed.slice(0, typed.length - named.name.length);
    return (await namesOf([named.kind], flags)).map((name) => `${prefix}${name}`);
  }
  // As in `get services NAME`.
  const before = argument.name() === "name" ? kindOfWord(last) : undefined;
  return namesOf(before === undefined ? kinds : [before], flags);
}

/** Empty if the cluster cannot be reached, or does not answer in time. */
async function namesOf(kinds: readonly Kind<KubeObject>[], flags: ClusterFlags): Promise<readonly string[]> {
  if (kinds.length === 0) return [];
  try {
    return await withCluster("completion", flags, async ({ client, namespace }) => {
      const timedOut = new Promise<undefined>((resolve) => {
        setTimeout(() => resolve(undefined), NAMES_MS).unref();
      });
      const lists = kinds.map((kind) => client.list(kind, kind.namespaced ? { namespace } : {}));
      const results = await Promise.all(lists.map((list) => Promise.race([list, timedOut])));
      return results.flatMap((result) =>
        result?.ok === true ? result.value.items.map(({ metadata }) => metadata.name) : [],
      );
    });
  } catch {
    return [];
  }
}
