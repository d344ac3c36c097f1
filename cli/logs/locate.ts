/** Finds a replica on this machine for the verbs that need its files; says where it is if it is not here. */
import { Argument, type Command, Option } from "commander";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { shellWord } from "../../local/shell-word.ts";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { type ClusterFlags, parseName } from "../cluster/flags.ts";
import { becomeAgentUser } from "../install/installed-agent.ts";
import { findLocalAgent } from "../install/local-agent.ts";
import { chooseLocal, type LocalReplica, readLocalReplicas } from "./local.ts";
import { explainNotLocal, type LookupTarget } from "./not-local.ts";

export interface LocalFlags extends ClusterFlags {
  readonly stateDir?: string;
  readonly config?: string;
  readonly root?: string;
}

export interface LocalLookup extends LookupTarget {
  /** `refused`: this user may not read it. */
  readonly codes: LookupTarget["codes"] & { readonly refused: ErrorCode };
  /** Uses what the name means in the cluster instead; false: nothing. */
  readonly elsewhere?: (cluster: Cluster, name: string) => Promise<boolean>;
}

export function replicaArgument(): Argument {
  return new Argument("<replica>", "name of the InferenceReplica, or of a service").argParser(
    (text: string) => parseName(text.replace(/^(ireps?|inferencereplicas?|isvc|replica|service)\//, "")),
  );
}

/** `--state-dir` and `--config`. */
export function addLocalFlags(command: Command): Command {
  return command
    .option(
      "--state-dir <folder>",
      "the agent's state folder on this machine (default: as root the installed agent's, else the agent's own default)",
    )
    .option("--config <file>", "the agent's configuration, which names its state folder")
    .addOption(new Option("--root <folder>").hideHelp());
}

/** Uses the replica, or a service's only one. The cluster is asked only where this machine does not have it. */
export async function useLocal(
  name: string,
  flags: LocalFlags,
  sought: LocalLookup,
  use: (replica: LocalReplica) => Promise<void>,
): Promise<void> {
  const { stateDir, hostName, installed } = await findLocalAgent(flags);
  const choose = () => chooseLocal(readLocalReplicas(stateDir), name, flags.namespace, sought.verb);
  try {
    const found = installed === undefined ? choose() : asOwnerOf(stateDir, choose);
    // Only now: the cluster may be asked with a kubeconfig that root alone can read.
    if (found !== undefined && installed !== undefined) await becomeAgentUser(installed);
    if (found !== undefined) return await use(found);
  } catch (error) {
    throw isRefused(error) ? unreadable(error, name, stateDir, sought) : error;
  }
  await withCluster(sought.verb, flags, async (cluster) => {
    if ((await sought.elsewhere?.(cluster, name)) === true) return;
    await explainNotLocal(cluster, name, { stateDir, hostName }, sought);
  }).catch((error: unknown) => {
    throw isAboutTheCluster(error) ? notHere(error, name, stateDir, sought) : error;
  });
}

/** The folder is named, because root's default is another one. */
function unreadable(
  error: Error,
  name: string,
  stateDir: string,
  { verb, codes }: LocalLookup,
): MetalbridgeError {
  // The agent's account, and so an engine, can put a link in the place of a log: it is never followed.
  if (codeOf(error) === "ELOOP")
    return new MetalbridgeError(codes.refused, `${error.message}: the file is a symbolic link`, {
      summary: "the agent does not make links there: find out which program did, and remove it",
    });
  return new MetalbridgeError(codes.refused, error.message, {
    summary: "run it as the agent's user, or as root",
    command: `sudo metalbridge ${verb} ${name} --state-dir ${shellWord(stateDir)}`,
  });
}

/** The cluster could not be asked: what is known then is what this machine's folder says. */
function notHere(
  { code, message }: MetalbridgeError,
  name: string,
  stateDir: string,
  { verb, what, codes }: LookupTarget,
): MetalbridgeError {
  const both = `${stateDir} holds no ${what} of ${name}, and where it is cannot be asked: ${code}: ${message}`;
  return new MetalbridgeError(codes.missing, both, {
    summary: "if the agent here uses another state folder, name it, or its configuration with --config",
    command: `metalbridge ${verb} ${shellWord(name)} --state-dir <folder>`,
  });
}

function isAboutTheCluster(error: unknown): error is MetalbridgeError {
  return (
    error instanceof MetalbridgeError && /^(Api(Unreachable|Unavailable|Un)|Kubeconfig)/.test(error.code)
  );
}

function isRefused(error: unknown): error is Error {
  return ["EACCES", "EPERM", "ELOOP"].includes(codeOf(error) ?? "");
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}
