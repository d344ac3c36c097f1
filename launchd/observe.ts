/** Reads what is on the machine. Changes nothing. */
import type { Stats } from "node:fs";
import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readPlainFile } from "../src/util/plain-file.ts";
import type { AccountState } from "./account/account.ts";
import { asOwnerOf } from "./account-files.ts";
import { queryAgent } from "./agent-socket.ts";
import { placesBelow, socketOf } from "./layout/layout.ts";
import { type Choices, entriesOf, type InstallEntry, type ProvidedFiles } from "./plan/entries.ts";
import type { EntryState, ObservedInstallation } from "./plan/observed.ts";
import type { InstallPorts } from "./ports.ts";
import type { ReleaseManifest } from "./release/manifest.ts";
import { listVersions } from "./release/stage.ts";

/** Maximum size of a configuration, a credential or a definition. */
const MAX_BYTES = 1 << 20;

/** `release` is what is to be installed: its version counts only where all its files are in place. */
export async function observeInstallation(
  ports: InstallPorts,
  choices: Choices,
  given: ProvidedFiles = {},
  release?: ReleaseManifest,
): Promise<ObservedInstallation> {
  const { layout } = choices;
  const { versions, current, previous } = placesBelow(layout.prefix);
  const account = layout.account === undefined ? undefined : await ports.accounts.observe(layout.account);
  const uids = {
    installer: layout.domain === "system" ? 0 : ports.euid,
    account: uidOf(account) ?? (layout.account === undefined ? ports.euid : undefined),
  };
  const entries = [];
  for (const entry of entriesOf(choices, given))
    entries.push({ entry, state: await observeEntry(entry, uids, layout.prefix) });
  return {
    ...(await listVersions(versions, release)),
    account: account?.at ?? "none wanted",
    current: await versionOf(current),
    previous: await versionOf(previous),
    entries,
    job: await ports.supervisor.observe(),
    agent: await queryAgent(socketOf(layout)),
    engines: await ports.countEngines(layout.stateDir),
  };
}

export function uidOf(account: AccountState | undefined): number | undefined {
  return account?.at === "present" ? account.uid : undefined;
}

/** Undefined when there is none. */
export async function ownerOfState(stateDir: string): Promise<number | undefined> {
  return lstat(stateDir).then(
    ({ uid }) => uid,
    () => undefined,
  );
}

export async function listFolderOrUndefined(folder: string): Promise<readonly string[] | undefined> {
  return readdir(folder).catch(() => undefined);
}

/** The folder below `volumes` that is to hold the path and that no volume is mounted on. */
export async function unmountedVolume(path: string, volumes = "/Volumes"): Promise<string | undefined> {
  const [above, name] = [`${volumes}/`, path.slice(volumes.length + 1).split("/")[0] ?? ""];
  if (!path.startsWith(above) || name === "") return undefined;
  const [device, parent] = await Promise.all([deviceOf(above + name), deviceOf(volumes)]);
  return device === undefined || device === parent ? above + name : undefined;
}

function deviceOf(folder: string): Promise<number | undefined> {
  return stat(folder).then(
    ({ dev }) => dev,
    () => undefined,
  );
}

async function versionOf(link: string): Promise<string | undefined> {
  const target = await readlink(link).catch(() => undefined);
  return target === undefined ? undefined : basename(target);
}

type Uids = { readonly installer: number; readonly account: number | undefined };

async function observeEntry(entry: InstallEntry, uids: Uids, prefix: string): Promise<EntryState> {
  const found = await lstat(entry.path).catch((error: NodeJS.ErrnoException) => error.code);
  if (found === "EACCES") return { is: "unreadable" };
  const isThere = found !== undefined && typeof found !== "string";
  if (entry.kind === "found") {
    // In a folder of the account's own, a file of another owner may be a second name of any file.
    const isRoots = (await lstat(dirname(entry.path)).catch(() => undefined))?.uid === 0;
    return ownerState(!isRoots || !isThere || !found.isFile() || isOf(found, uids[entry.owner]));
  }
  if (!isThere) return { is: "missing" };
  if (entry.kind === "link") return observeLink(entry, found.isSymbolicLink(), prefix);
  const isKind = entry.kind === "folder" ? found.isDirectory() : found.isFile();
  if (!isKind) return { is: "different", what: "kind", isOurs: false };
  if (entry.kind === "file" && !entry.isKept) {
    const text = textOf(entry.path);
    if (text !== entry.text) return { is: "different", what: "text", isOurs: isOwnText(text, entry, prefix) };
  }
  return ownerState(isOf(found, uids[entry.owner]) && (found.mode & 0o777) === entry.mode);
}

/** Empty where the owner of the folder may not read it: then it is written again. */
function textOf(path: string): string {
  try {
    return asOwnerOf(dirname(path), () => readPlainFile(path, { maxBytes: MAX_BYTES }));
  } catch {
    return "";
  }
}

/** An account that is still to be created owns nothing yet. */
function isOf({ uid }: Stats, wanted: number | undefined): boolean {
  return uid === wanted;
}

function ownerState(isRight: boolean): EntryState {
  return isRight ? { is: "as wanted" } : { is: "different", what: "owner", isOurs: true };
}

async function observeLink(
  { path, target }: Extract<InstallEntry, { readonly kind: "link" }>,
  isLink: boolean,
  prefix: string,
): Promise<EntryState> {
  const found = isLink ? await readlink(path) : undefined;
  if (found === target) return { is: "as wanted" };
  return { is: "different", what: "target", isOurs: found?.startsWith(`${prefix}/`) === true };
}

/** A definition of another program is not ours to replace; a configuration or kubeconfig that was given is. */
function isOwnText(text: string, entry: InstallEntry, prefix: string): boolean {
  const isDefinition = /\.(plist|service)$/.test(entry.path);
  return !isDefinition || text.includes(join(prefix, "current", "bin", "node"));
}
