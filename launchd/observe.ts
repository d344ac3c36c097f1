/** Observes the installation on the machine. Changes nothing. */
import { lstat, readlink, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readPlainFile } from "../src/util/plain-file.ts";
import type { AccountState } from "./account/account.ts";
import { asOwnerOf } from "./account-files.ts";
import { queryAgent } from "./agent-socket.ts";
import { placesBelow, socketOf } from "./layout/layout.ts";
import { type Choices, type InstallEntry, installEntriesOf, type ProvidedFiles } from "./plan/entries.ts";
import type { EntryState, ObservedInstallation } from "./plan/observed.ts";
import type { InstallPorts } from "./ports.ts";
import type { ReleaseManifest } from "./release/manifest.ts";
import { listVersions } from "./release/stage.ts";

/** Maximum size of a configuration, a credential, a launchd plist or a systemd unit. */
const MAX_BYTES = 1 << 20;

/** `release` is the release to install. Its version counts as present only if all its files are intact. */
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
  for (const entry of installEntriesOf(choices, given))
    entries.push({ entry, state: await observeEntry(entry, uids, layout.prefix) });
  return {
    ...(await listVersions(versions, release)),
    account: account?.at ?? "not needed",
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

/** The folder in `volumes` that contains the path, if no volume is mounted there. */
export async function unmountedVolume(path: string, volumes = "/Volumes"): Promise<string | undefined> {
  const name = path.slice(volumes.length + 1).split("/")[0] ?? "";
  const volume = `${volumes}/${name}`;
  if (!path.startsWith(`${volumes}/`) || name === "") return undefined;
  const [found, parent] = await Promise.all(
    [volume, volumes].map((folder) => stat(folder).catch(() => undefined)),
  );
  return found === undefined || found.dev === parent?.dev ? volume : undefined;
}

async function versionOf(link: string): Promise<string | undefined> {
  const target = await readlink(link).catch(() => undefined);
  return target === undefined ? undefined : basename(target);
}

type Uids = { readonly installer: number; readonly account: number | undefined };

async function observeEntry(entry: InstallEntry, uids: Uids, prefix: string): Promise<EntryState> {
  const found = await lstat(entry.path).catch((error: NodeJS.ErrnoException) => error.code);
  if (found === "EACCES") return { is: "unreadable" };
  const exists = found !== undefined && typeof found !== "string";
  if (entry.kind === "found") {
    // In a folder of the account itself, a file that is owned by someone else may be a hard link to any file.
    const isParentOwnedByRoot = (await lstat(dirname(entry.path)).catch(() => undefined))?.uid === 0;
    return ownerState(!isParentOwnedByRoot || !exists || !found.isFile() || found.uid === uids[entry.owner]);
  }
  if (!exists) return { is: "missing" };
  if (entry.kind === "link") return observeLink(entry, found.isSymbolicLink(), prefix);
  const isKind = entry.kind === "folder" ? found.isDirectory() : found.isFile();
  if (!isKind) return { is: "different", what: "kind", isOurs: false };
  if (entry.kind === "file" && !entry.keepsExisting) {
    const text = textOf(entry.path);
    if (text !== entry.text) return { is: "different", what: "text", isOurs: isOwnText(text, entry, prefix) };
  }
  // The uid is undefined for an account that does not exist yet, which owns no file.
  return ownerState(found.uid === uids[entry.owner] && (found.mode & 0o777) === entry.mode);
}

/** Empty if the owner of the folder may not read the file. The file is then written again. */
function textOf(path: string): string {
  try {
    return asOwnerOf(dirname(path), () => readPlainFile(path, { maxBytes: MAX_BYTES }));
  } catch {
    return "";
  }
}

function ownerState(isCorrect: boolean): EntryState {
  return isCorrect ? { is: "correct" } : { is: "different", what: "owner", isOurs: true };
}

async function observeLink(
  { path, target }: Extract<InstallEntry, { readonly kind: "link" }>,
  isLink: boolean,
  prefix: string,
): Promise<EntryState> {
  const found = isLink ? await readlink(path) : undefined;
  if (found === target) return { is: "correct" };
  return { is: "different", what: "target", isOurs: found?.startsWith(`${prefix}/`) === true };
}

/** A launchd plist or systemd unit of another program must not be replaced. A provided configuration or kubeconfig replaces any existing text. */
function isOwnText(text: string, entry: InstallEntry, prefix: string): boolean {
  const isDefinition = /\.(plist|service)$/.test(entry.path);
  return !isDefinition || text.includes(join(prefix, "current", "bin", "node"));
}
