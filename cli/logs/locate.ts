/** Finds a replica on this machine for the verbs that need its files, or explains where the replica is. */
import { Argument, type Command, Option } from "commander";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { shellWord } from "../../local/shell-word.ts";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { type ClusterFlags, parseName } from "../cluster/flags.ts";
import { nameOfKind } from "../cluster/kinds.ts";
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
  /** `refused`: this user may not read the file. */
  readonly codes: LookupTarget["codes"] & { readonly refused: ErrorCode };
  /** Called if this machine does not have the replica. False if the cluster does not offer it either. */
  readonly elsewhere?: (cluster: Cluster, name: string) => Promise<boolean>;
}

export function replicaArgument(): Argument {
  return new Argument("<replica>", "name of the InferenceReplica, or of a service").argParser(
    (text: string) => parseName(nameOfKind(text, INFERENCE_REPLICAS, INFERENCE_SERVICES)),
  );
}

/** `--state-dir` and `--config`. */
export function addLocalFlags(command: Command): Command {
  return command
    .option(
      "--state-dir <folder>",
      "state folder of the agent on this machine (default: for root the one of the installed agent, else the default of an agent)",
    )
    .option("--config <file>", "configuration file of the agent, which names the state folder")
    .addOption(new Option("--root <folder>").hideHelp());
}

/** Uses the replica, or the only replica of a service. The cluster is read only if this machine does not have the replica. */
export async function useLocal(
  name: string,
  flags: LocalFlags,
  lookup: LocalLookup,
  use: (replica: LocalReplica) => Promise<void>,
): Promise<void> {
  const { stateDir, hostName, installed } = await findLocalAgent(flags);
  const choose = () => chooseLocal(readLocalReplicas(stateDir), name, flags.namespace, lookup.verb);
  try {
    const found = installed === undefined ? choose() : asOwnerOf(stateDir, choose);
    // Root privileges are dropped only now, because the cluster may need a kubeconfig that only root can read.
    if (found !== undefined && installed !== undefined) await becomeAgentUser(installed);
    if (found !== undefined) return await use(found);
  } catch (error) {
    throw isRefused(error) ? unreadable(error, name, stateDir, lookup) : error;
  }
  await withCluster(lookup.verb, flags, async (cluster) => {
    if ((await lookup.elsewhere?.(cluster, name)) === true) return;
    await explainNotLocal(cluster, name, { stateDir, hostName }, lookup);
  }).catch((error: unknown) => {
    throw isAboutTheCluster(error) ? missingOnHost(error, name, stateDir, lookup) : error;
  });
}

/** The remedy names the folder, because the default of root is another folder. */
function unreadable(
  error: Error,
  name: string,
  stateDir: string,
  { verb, codes }: LocalLookup,
): MetalbridgeError {
  // An engine runs under the account of the agent and can replace a log with a link. Such a link is never followed.
  if (codeOf(error) === "ELOOP")
    return new MetalbridgeError(codes.refused, `${error.message}: the file is a symbolic link`, {
      summary: "the agent creates no links there: find the program that created it, and remove the link",
    });
  return new MetalbridgeError(codes.refused, error.message, {
    summary: "run the command as the user of the agent, or as root",
    command: `sudo metalbridge ${verb} ${name} --state-dir ${shellWord(stateDir)}`,
  });
}

/** Used if the cluster cannot be read either, so that only the local folder is known. */
function missingOnHost(
  { code, message }: MetalbridgeError,
  name: string,
  stateDir: string,
  { verb, what, codes }: LookupTarget,
): MetalbridgeError {
  const both = `${stateDir} has no ${what} of ${name}, and the cluster cannot be read: ${code}: ${message}`;
  return new MetalbridgeError(codes.missing, both, {
    summary: "if the agent on this machine uses another state folder, pass --state-dir or --config",
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
