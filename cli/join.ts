/** `metalbridge join`: checks this machine, trades the join token for a credential of its own, and stores it. */

import { existsSync } from "node:fs";
import { copyFile, lchown, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { writeFileAtomic } from "../agent/atomic-file.ts";
import { loadAgentConfig } from "../agent/config/load.ts";
import type { AgentConfig } from "../agent/config/schema.ts";
import { joinedKubeconfigPath, readHostToken } from "../agent/credential/file.ts";
import { makeFolder } from "../agent/folder.ts";
import { runAgent } from "../agent/main.ts";
import { renderKubeconfig } from "../local/control-plane/state/kubeconfig.ts";
import { silentLog } from "../local/terminal-log.ts";
import { HOST_TOKEN_SECONDS } from "../src/api/access/account.ts";
import { joinSecretName } from "../src/api/access/roles.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import { SECRETS } from "../src/kube/kinds.ts";
import { readTokenClaims, requestToken, type TokenClaims } from "../src/kube/token.ts";
import type { ApiFailure } from "../src/kube/types.ts";
import { type AgentFlags, addMachineFlags, settingsOf, withFoundEngine } from "./agent.ts";
import { here } from "./install/context.ts";
import { becomeInstalledAgent } from "./install/installed-agent.ts";
import { writeErr, writeOut } from "./program/output.ts";

interface JoinFlags extends AgentFlags {
  readonly server: string;
  readonly caData?: string;
  readonly token: string;
  readonly root: string;
}

type HostClaims = TokenClaims & { readonly host: string };

/** Options and action of the verb. */
export function configureJoin(command: Command): void {
  addMachineFlags(
    command
      .requiredOption("--server <url>", "the API server")
      .option(
        "--ca-data <base64>",
        "certificate authority of the API server (default: those of this machine)",
      )
      .requiredOption("--token <token>", "join token; - reads it from standard input"),
  )
    .option("--kubeconfig <file>", "where to store the credential (default: kubeconfig in the state folder)")
    .addOption(new Option("--root <folder>").default("").hideHelp())
    .action(join);
}

async function join(given: JoinFlags): Promise<void> {
  const flags = await forInstalledAgent(given);
  const token = flags.token === "-" ? (await text(process.stdin)).trim() : flags.token;
  const claims = readTokenClaims(token);
  if (claims?.host === undefined)
    throw new MetalbridgeError(
      "JoinTokenInvalid",
      claims === undefined ? "this is no token" : `this is the token of ${claims.subject}, not of a host`,
    );
  const config = configOf(flags, { ...claims, host: claims.host });
  const folder = await mkdtemp(path.join(tmpdir(), "metalbridge-join-"));
  try {
    const trial = path.join(folder, "kubeconfig");
    await writeFile(trial, kubeconfigOf(flags, claims.host, token), { mode: 0o600 });
    await requireAccepted(trial, { ...claims, host: claims.host });
    const print = (line: string) => writeOut(`${line}\n`);
    const ports = { signal: new AbortController().signal, log: silentLog, print };
    await runAgent({ ...config, kubeconfig: trial, context: undefined, dryRun: true }, ports);
    await exchange(trial, config.kubeconfig ?? joinedKubeconfigPath(config.stateDir), flags, claims.host);
  } catch (error) {
    // The API server remembers an accepted token for some seconds: one that was used may fail only now.
    if (error instanceof MetalbridgeError && error.code === "ApiUnauthorized")
      throw tokenRefused({ ...claims, host: claims.host });
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The installed agent is meant unless a flag says where another one keeps its files. */
async function forInstalledAgent(flags: JoinFlags): Promise<JoinFlags> {
  if ((flags.config ?? flags.stateDir ?? flags.kubeconfig) !== undefined) return flags;
  const installed = await becomeInstalledAgent({ platform: flags.platform ?? here(), root: flags.root });
  return installed === undefined
    ? flags
    : { ...flags, config: installed.configFile, stateDir: installed.stateDir };
}

/** As the agent will read it. */
function configOf(flags: JoinFlags, { host }: HostClaims): AgentConfig {
  const config = loadAgentConfig({ file: flags.config, flags: settingsOf(flags), joiningAs: host });
  if (config.hostName !== host)
    throw new MetalbridgeError(
      "JoinTokenForAnotherHost",
      `the token is for host ${host}, but this machine is to be host ${config.hostName}`,
    );
  return withFoundEngine(config);
}

function kubeconfigOf({ server, caData }: JoinFlags, user: string, token: string): string {
  const certificateAuthority =
    caData === undefined ? undefined : Buffer.from(caData, "base64").toString("utf8");
  return renderKubeconfig({ url: server, certificateAuthority, token, user });
}

/** Throws what a host's administrator can act on: the token, the server's certificate, the way to it. */
async function requireAccepted(kubeconfigPath: string, claims: HostClaims): Promise<void> {
  const connection = await connect({ kubeconfigPath, userAgent: "metalbridge-join" });
  try {
    const { host } = claims;
    const listed = await createClient(connection).list(HOSTS, { fieldSelector: `metadata.name=${host}` });
    if (!listed.ok) throw refusal(listed.error, claims, connection);
  } finally {
    connection.close();
  }
}

function refusal(failure: ApiFailure, claims: HostClaims, connection: KubeConnection): MetalbridgeError {
  const error = explainFailure(failure);
  const command = `metalbridge host add ${claims.host}`;
  if (failure.kind === "unauthorized") return tokenRefused(claims, connection.serverAheadMs());
  if (error.code !== "ApiCertificateUntrusted") return error;
  const now = new Date().toISOString();
  return new MetalbridgeError(error.code, error.message, {
    summary: `check this machine's clock (${now}); if it is right, the cluster's certificate authority has changed: ask for a new join command`,
    command,
  });
}

function tokenRefused({ host, expiresAt }: HostClaims, serverAheadMs = 0): MetalbridgeError {
  const until = new Date(expiresAt * 1_000).toISOString();
  const why =
    Date.now() + serverAheadMs >= expiresAt * 1_000
      ? `it expired at ${until}`
      : `it would be valid until ${until}, so it was used or replaced, or is from another cluster`;
  return new MetalbridgeError("JoinTokenRefused", `the token of host ${host} is refused: ${why}`, {
    summary: "ask an administrator for a new join command",
    command: `metalbridge host add ${host}`,
  });
}

/** The join token ends with its Secret once the new credential has proved itself. */
async function exchange(trial: string, file: string, flags: JoinFlags, host: string): Promise<void> {
  const connection = await connect({ kubeconfigPath: trial, userAgent: "metalbridge-join" });
  try {
    const account = { namespace: NAMESPACE_HOSTS, name: host };
    const issued = await requestToken(connection, { account, seconds: HOST_TOKEN_SECONDS });
    if (!issued.ok) throw explainFailure(issued.error);
    const kept = await store(file, kubeconfigOf(flags, host, issued.value));
    await writeFile(trial, kubeconfigOf(flags, host, issued.value));
    connection.reload();
    const ended = await createClient(connection).remove(SECRETS, {
      name: joinSecretName(host),
      namespace: NAMESPACE_HOSTS,
    });
    if (!ended.ok && ended.error.kind !== "notFound")
      writeErr(`the join token stays valid until it expires: ${ended.error.message}\n`);
    writeOut(
      `this machine has joined as host ${host}\n  credential: ${file} (mode 0600; the agent renews it)\n`,
    );
    if (kept !== undefined) writeOut(`  the kubeconfig that was there: ${kept}\n`);
    writeOut(
      "  an agent that uses this file takes it up within 10 s; otherwise start one: metalbridge agent\n",
    );
  } finally {
    connection.close();
  }
}

/** Whoever owns the folder runs the agent. What is not a host's credential is kept; the answer says where. */
async function store(file: string, content: string): Promise<string | undefined> {
  const folder = path.dirname(file);
  try {
    await makeFolder(folder);
    const isOthers =
      existsSync(file) && readHostToken(file) === undefined && (await readFile(file)).length > 0;
    const kept = isOthers ? `${file}.before-join` : undefined;
    if (kept !== undefined) await copyFile(file, kept);
    await writeFileAtomic(file, content);
    if (process.getuid?.() === 0) {
      const { uid, gid } = await stat(folder);
      await lchown(file, uid, gid); // no link that the account may put there
    }
    return kept;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MetalbridgeError("JoinFailed", `${file}: ${why}`, undefined, { cause });
  }
}
