/** `metalbridge join`: checks this machine, exchanges the join token for its own credential, and stores the credential. */
import { copyFileSync, existsSync, lstatSync, readFileSync, renameSync, rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { loadAgentConfig } from "../agent/config/load.ts";
import type { AgentConfig } from "../agent/config/schema.ts";
import { joinedKubeconfigPath, readHostToken } from "../agent/credential/file.ts";
import { runAgent } from "../agent/main.ts";
import { asOwnerOf } from "../launchd/account-files.ts";
import { renderKubeconfig } from "../local/control-plane/state/kubeconfig.ts";
import { silentLog } from "../local/terminal-log.ts";
import { HOST_TOKEN_SECONDS } from "../src/api/access/account.ts";
import { credentialSecretName, generationOf, joinSecretName } from "../src/api/access/roles.ts";
import { MetalbridgeError, remedyOf } from "../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { HOSTS } from "../src/api/kinds.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { explainFailure } from "../src/kube/errors.ts";
import { SECRETS } from "../src/kube/kinds.ts";
import { readTokenClaims, requestToken, type TokenClaims } from "../src/kube/token.ts";
import type { ApiFailure } from "../src/kube/types.ts";
import { writeFileAtomicSync } from "../src/util/atomic-file.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { makeFolder } from "../src/util/folder.ts";
import { type AgentFlags, addMachineFlags, agentSettingsOf } from "./agent.ts";
import { withCluster } from "./cluster/cluster.ts";
import { llamaServerPaths, ownPrefix } from "./engine/programs.ts";
import { currentPlatform, systemLayout } from "./install/context.ts";
import { becomeAgentUser, environmentBesideAgent } from "./install/installed-agent.ts";
import { forgetKey, groupOf, requestJoin } from "./join/entry.ts";
import { explainUntrusted, readCaData } from "./join/server-trust.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printLine, printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface JoinFlags extends AgentFlags {
  readonly name?: string;
  readonly server: string;
  readonly caData?: string;
  readonly token: string;
  readonly root: string;
}

/** The settings that the agent will be started with. */
interface AgentSetup {
  readonly flags: JoinFlags;
  readonly env: NodeJS.ProcessEnv;
  /** Prefix of the installation with the engines. */
  readonly prefix: string | undefined;
}

/** The Secret of a join token; `generation` names the `host add` that created it. */
type HostClaims = TokenClaims & { readonly host: string; readonly generation: string };

/** Options and action of the verb. */
export function configureJoin(command: Command): void {
  addMachineFlags(
    command
      .requiredOption("--server <url>", "URL of the API server")
      .option(
        "--ca-data <base64>",
        "certificate authority of the API server, as base64 (default: the authorities that this machine trusts)",
      )
      .requiredOption("--token <token>", "join token of a host or of a group, or - for standard input"),
  )
    .addOption(new Option("--name <name>", "same as --host-name").conflicts("hostName"))
    .option("--kubeconfig <file>", "file for the credential (default: kubeconfig in the state folder)")
    .addOption(new Option("--root <folder>").default("").hideHelp())
    .action(join);
}

async function join(given: JoinFlags, command: Command): Promise<void> {
  if (given.caData !== undefined && readCaData(given.caData) === undefined)
    command.error(
      "error: --ca-data is not the base64 of a PEM certificate: copy the whole command that was printed for this machine",
    );
  // The account of the agent must be able to reach the folder of the credential, whatever the umask of root.
  if (process.geteuid?.() === 0) process.umask(0o022);
  const setup = await forInstalledAgent({ ...given, hostName: given.hostName ?? given.name });
  const token = setup.flags.token === "-" ? (await text(process.stdin)).trim() : setup.flags.token;
  const folder = await mkdtemp(path.join(tmpdir(), "metalbridge-join-"));
  try {
    const trial = path.join(folder, "kubeconfig");
    const claims = readTokenClaims(token);
    const group = claims && groupOf(claims);
    if (claims === undefined || group === undefined) return await joinWith(setup, token, trial);
    const config = loadAgentConfig({
      file: setup.flags.config,
      flags: agentSettingsOf(setup.flags),
      env: { ...setup.env, KUBECONFIG: "" },
    });
    if (await hasJoined(config)) return;
    await writeFile(trial, kubeconfigOf(setup.flags, group, token), { mode: 0o600 });
    const { toolPath } = readEnvironment();
    // Without a handler, a signal would leave the file with the token of the group.
    const { signal } = listenForStop();
    const hostToken = await requestJoin({ config, claims, group, kubeconfig: trial, toolPath, signal });
    if (hostToken === undefined) {
      process.exitCode = exitCodes.interrupted;
      return;
    }
    await joinWith(setup, hostToken, trial);
    forgetKey(config.stateDir);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Joins with the token of a host. */
async function joinWith(setup: AgentSetup, token: string, trial: string): Promise<void> {
  const { flags, env } = setup;
  const claims = claimsOf(token);
  const config = configOf(setup, claims);
  try {
    await writeFile(trial, kubeconfigOf(flags, claims.host, token), { mode: 0o600 });
    await requireAccepted(trial, claims);
    const environment = { ...readEnvironment(), all: env };
    const ports = { signal: new AbortController().signal, log: silentLog, print: printLine, environment };
    await runAgent({ ...config, kubeconfig: trial, context: undefined, dryRun: true }, ports);
    await exchange(trial, config.kubeconfig ?? joinedKubeconfigPath(config.stateDir), flags, claims);
  } catch (error) {
    // The API server caches an accepted token for some seconds, so a token that was used may fail only now.
    if (error instanceof MetalbridgeError && error.code === "ApiUnauthorized") throw tokenRefused(claims);
    throw error;
  }
}

/** True if this machine has joined. Device management may run the command repeatedly, without a change on such a machine. */
async function hasJoined({ hostName, kubeconfig, stateDir }: AgentConfig): Promise<boolean> {
  const file = kubeconfig ?? joinedKubeconfigPath(stateDir);
  if (readHostToken(file)?.claims.host !== hostName) return false;
  return withCluster("join", { kubeconfig: file }, async ({ client }) => {
    const found = await client.list(HOSTS, { fieldSelector: `metadata.name=${hostName}` });
    if (!found.ok && found.error.kind !== "unauthorized" && found.error.kind !== "forbidden")
      throw explainFailure(found.error);
    if (found.ok) printLine(`this machine has already joined as host ${hostName}`);
    return found.ok;
  });
}

/** Throws JoinTokenInvalid. */
function claimsOf(token: string): HostClaims {
  const claims = readTokenClaims(token);
  const invalid = (why: string) => new MetalbridgeError("JoinTokenInvalid", why);
  if (claims === undefined) throw invalid("this is not a token");
  const { host, secret } = claims;
  if (host === undefined) throw invalid(`this is the token of ${claims.subject}, not of a host`);
  const generation = secret === undefined ? undefined : generationOf(host, secret);
  if (generation === undefined)
    throw new MetalbridgeError(
      "JoinTokenInvalid",
      `this is not a join token of host ${host}`,
      remedyOf("JoinTokenInvalid", { host }),
    );
  return { ...claims, host, generation };
}

/**
 * Uses the installed agent, unless a flag names the files of another one. For root, the system agent is used also before it
 * is installed: `install` finds the credential in its folder.
 */
async function forInstalledAgent(flags: JoinFlags): Promise<AgentSetup> {
  const { all: env } = readEnvironment();
  if ((flags.config ?? flags.stateDir ?? flags.kubeconfig) !== undefined)
    return { flags, env, prefix: ownPrefix() };
  const place = { platform: flags.platform ?? currentPlatform(), root: flags.root };
  const installed = await becomeAgentUser(place);
  if (installed !== undefined) {
    const { configFile: config, stateDir, prefix } = installed;
    return { flags: { ...flags, config, stateDir }, env: installed.env ?? env, prefix };
  }
  if (process.geteuid?.() !== 0) return { flags, env, prefix: ownPrefix() };
  const { configFile, stateDir, prefix } = systemLayout(place);
  const config = existsSync(configFile) ? { config: configFile } : {};
  return {
    flags: { ...flags, ...config, stateDir },
    env: { ...environmentBesideAgent(stateDir), HOME: "/" },
    prefix,
  };
}

/** The configuration as the agent will read it. */
function configOf({ flags, env, prefix }: AgentSetup, { host }: HostClaims): AgentConfig {
  const config = loadAgentConfig({ file: flags.config, flags: agentSettingsOf(flags), joiningAs: host, env });
  if (config.hostName !== host)
    throw new MetalbridgeError(
      "JoinTokenForAnotherHost",
      `the token is for host ${host}, but this machine is configured as host ${config.hostName}`,
      remedyOf("JoinTokenForAnotherHost", { host: config.hostName }),
    );
  return { ...config, llamaServer: [...llamaServerPaths(config, { env, prefix })] };
}

function kubeconfigOf({ server, caData }: JoinFlags, user: string, token: string): string {
  const certificateAuthority = caData === undefined ? undefined : readCaData(caData);
  return renderKubeconfig({ url: server, certificateAuthority, token, user });
}

/** Throws an error that an administrator can act on: the token, the certificate of the server, or the network. */
async function requireAccepted(kubeconfig: string, claims: HostClaims): Promise<void> {
  await withCluster("join", { kubeconfig }, async ({ client, connection }) => {
    const listed = await client.list(HOSTS, { fieldSelector: `metadata.name=${claims.host}` });
    if (!listed.ok) throw refusal(listed.error, claims, connection);
  });
}

function refusal(failure: ApiFailure, claims: HostClaims, connection: KubeConnection): MetalbridgeError {
  if (failure.kind === "unauthorized") return tokenRefused(claims, connection.serverAheadMs());
  return explainUntrusted(failure, `metalbridge host add ${claims.host}`) ?? explainFailure(failure);
}

function tokenRefused({ host, expiresAt }: HostClaims, serverAheadMs = 0): MetalbridgeError {
  const until = new Date(expiresAt * 1_000).toISOString();
  const why =
    Date.now() + serverAheadMs >= expiresAt * 1_000
      ? `it expired at ${until}`
      : `it is valid until ${until}, so it was already used or replaced, or is from another cluster`;
  return new MetalbridgeError("JoinTokenRefused", `the token of host ${host} is refused: ${why}`, {
    summary: "ask an administrator for a new join command",
    command: `metalbridge host add ${host}`,
  });
}

/**
 * The join token is revoked with its Secret once the new credential works. The machine that deletes the Secret has joined: of
 * two concurrent joins, the other one stores nothing.
 */
async function exchange(trial: string, file: string, flags: JoinFlags, claims: HostClaims): Promise<void> {
  const { host, generation } = claims;
  await withCluster("join", { kubeconfig: trial }, async ({ client, connection }) => {
    const account = { namespace: NAMESPACE_HOSTS, name: host };
    const boundTo = { name: credentialSecretName(host, generation) };
    const issued = await requestToken(connection, { account, seconds: HOST_TOKEN_SECONDS, boundTo });
    if (!issued.ok)
      throw issued.error.kind === "notFound" ? tokenRefused(claims) : explainFailure(issued.error);
    const stored = await store(file, kubeconfigOf(flags, host, issued.value));
    await writeFile(trial, kubeconfigOf(flags, host, issued.value));
    connection.reload();
    const removed = await client.remove(SECRETS, {
      name: joinSecretName(host, generation),
      namespace: NAMESPACE_HOSTS,
    });
    if (!removed.ok && removed.error.kind === "notFound") {
      stored.undo();
      throw alreadyUsed(host);
    }
    if (!removed.ok) printNote(`the join token stays valid until it expires: ${removed.error.message}`);
    printLine(
      `this machine has joined as host ${host}\n  credential: ${file} (mode 0600; the agent renews it)`,
    );
    if (stored.backup !== undefined) printLine(`  backup of the previous kubeconfig: ${stored.backup}`);
    printLine(
      "  a running agent that uses this file reads it within 10 s; otherwise start one: metalbridge agent",
    );
  });
}

function alreadyUsed(host: string): MetalbridgeError {
  return new MetalbridgeError(
    "JoinTokenRefused",
    `the token of host ${host} is refused: another join has just used it`,
    {
      summary:
        "if that was not intended, issue a new join command, which revokes the credential of the other machine",
      command: `metalbridge host add ${host}`,
    },
  );
}

interface Stored {
  /** Backup of the previous file. */
  readonly backup: string | undefined;
  readonly undo: () => void;
}

/** Writes the file as the owner of the folder, who runs the agent. A previous file that is not the credential of a host is backed up. */
async function store(file: string, content: string): Promise<Stored> {
  const folder = path.dirname(file);
  try {
    await makeFolder(folder);
    return asOwnerOf(folder, () => {
      const before = isPlain(file) ? readFileSync(file, "utf8") : undefined;
      const backup = backUp(file);
      writeFileAtomicSync(file, content);
      const restore = () =>
        before === undefined ? rmSync(file, { force: true }) : writeFileAtomicSync(file, before);
      return { backup, undo: () => asOwnerOf(folder, restore) };
    });
  } catch (cause) {
    const why = errorMessage(cause);
    throw new MetalbridgeError("JoinFailed", `${file}: ${why}`, undefined, { cause });
  }
}

function isPlain(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

/** Anything but a regular file, such as a link, is renamed unread. */
function backUp(file: string): string | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const backup = `${file}.before-join`;
  if (!found.isFile()) {
    renameSync(file, backup);
    return backup;
  }
  if (found.size === 0 || readHostToken(file) !== undefined) return undefined;
  copyFileSync(file, backup);
  return backup;
}
