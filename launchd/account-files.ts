/**
 * The only place where root writes, reads and removes files in folders of other accounts. It does so with the rights of the
 * account, so that links, hard links, FIFOs and swapped folders lead only to files that the account may change anyway.
 */
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  type Stats,
  statSync,
  unlinkSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { systemError, writeFileAtomicSync } from "../src/util/atomic-file.ts";
import type { EntryOwner } from "./plan/entries.ts";

export interface Ids {
  readonly uid: number;
  readonly gid: number;
}

/** The kernels follow this many links at most. */
const MAX_LINKS = 32;
const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

/** Runs `work` with the rights of the first account other than root that controls `path`, or as root if there is none. */
export function asOwnerOf<T>(path: string, work: () => T): T {
  const account = process.geteuid?.() === 0 ? accountControlling(path) : undefined;
  return account === undefined ? work() : withRightsOf(account, work);
}

/** `work` must be synchronous, because the rights apply to the whole process. */
function withRightsOf<T>({ uid, gid }: Ids, work: () => T): T {
  const own = process.getegid?.() ?? 0;
  process.setgroups?.([gid]);
  process.setegid?.(gid);
  process.seteuid?.(uid);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(own);
    // Root needs no other groups, and macOS may report more groups than it accepts.
    process.setgroups?.([own]);
  }
}

/** Undefined if every part of the path, including links, belongs to root. Throws for a folder that any account may change. */
export function accountControlling(path: string): (Ids & { readonly at: string }) | undefined {
  const names = path.split("/").filter(Boolean);
  let at = "/";
  let links = 0;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const next = join(at, name);
    const found = lstatSync(next, { throwIfNoEntry: false });
    if (found === undefined) return undefined;
    if (found.uid !== 0) return { uid: found.uid, gid: found.gid, at: next };
    if (!found.isSymbolicLink()) {
      if (found.isDirectory() && (found.mode & WRITABLE_BY_ALL) !== 0 && (found.mode & STICKY) === 0)
        throw systemError("EACCES", `every account may change ${next}: chmod o-w ${next}`);
      at = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw systemError("ELOOP", `${path} leads through too many links`);
    const target = readlinkSync(next);
    if (target.startsWith("/")) at = "/";
    names.unshift(...target.split("/").filter(Boolean));
  }
  return undefined;
}

/** `ids` is undefined for a user who cannot change the owner of files. */
export function makeOwnedFolder(path: string, mode: number, ids: Ids | undefined): void {
  inFolderOf(path, ids, () => {
    mkdirSync(path, { recursive: true });
    setOwner(path, mode, ids);
  });
}

/** A new file replaces the old one by rename. */
export function replaceFile(
  path: string,
  text: string,
  { mode, ids }: { readonly mode: number; readonly ids?: Ids | undefined },
): void {
  inFolderOf(path, ids, () => {
    mkdirSync(dirname(path), { recursive: true });
    const temporary = temporaryOf(path);
    for (const place of [temporary, path]) refuseFolder(place);
    rmSync(temporary, { force: true });
    writeFileAtomicSync(path, text, { temporary, prepare: (file) => setAccess(file, mode, ids) });
  });
}

/** Corrects owner and mode of an existing file or folder. */
export function correctOwner(path: string, mode: number, ids: Ids | undefined): void {
  inFolderOf(path, ids, () => setOwner(path, mode, ids));
}

/** Root writes its own files as root, even below a folder of another account: Homebrew gives folders in /usr/local to a user. */
function inFolderOf(path: string, ids: Ids | undefined, work: () => void): void {
  if (ids === undefined || ids.uid === 0) work();
  else asOwnerOf(dirname(path), work);
}

/** The name is constant, so that the next run replaces a leftover of a killed run. */
export function temporaryOf(path: string): string {
  return `${path}.metalbridge-new`;
}

/** The user must remove such a folder, because its content is unknown and not ours. */
function refuseFolder(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
    throw systemError(
      "EISDIR",
      `${path} is a folder, where a file belongs: remove it (rm -r '${path}') and retry`,
    );
}

function setOwner(path: string, mode: number, ids: Ids | undefined): void {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    setAccess(file, mode, ids);
  } finally {
    closeSync(file);
  }
}

/** Never changes the owner of a file that has a second name elsewhere. */
function setAccess(file: number, mode: number, ids: Ids | undefined): void {
  const found = fstatSync(file);
  if (ids !== undefined && (found.uid !== ids.uid || found.gid !== ids.gid)) {
    if (!found.isDirectory() && !(found.isFile() && found.nlink === 1))
      throw systemError("EPERM", "the file has another name too, or is not a regular file: remove it");
    fchownSync(file, ids.uid, ids.gid);
  }
  fchmodSync(file, mode);
}

/**
 * Removes a file or a folder with its content, if it exists. Each folder is entered and then checked by its inode, so that
 * another account that changes a folder cannot redirect the removal. Folders above `path` are not checked in this way, so
 * files of the account are removed with the rights of the account that controls the path.
 */
export function removeTree(path: string, owner: EntryOwner): void {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  const before = currentFolder();
  const remove = () => {
    process.chdir(dirname(path));
    removeEntry(basename(path));
  };
  try {
    if (owner === "installer") remove();
    else asOwnerOf(dirname(path), remove);
  } finally {
    process.chdir(existsSync(before) ? before : "/");
  }
}

function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    return "/";
  }
}

function removeEntry(name: string): void {
  const found = lstatSync(name, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isDirectory()) {
    unlinkSync(name);
    return;
  }
  const parent = statSync(".");
  process.chdir(name);
  requireCurrentFolder(found, name);
  for (const entry of readdirSync(".")) removeEntry(entry);
  process.chdir("..");
  requireCurrentFolder(parent, name);
  rmdirSync(name);
}

function requireCurrentFolder({ dev, ino }: Pick<Stats, "dev" | "ino">, name: string): void {
  const current = statSync(".");
  if (current.dev !== dev || current.ino !== ino)
    throw systemError("EBUSY", `${name} was moved while it was removed: run the command again`);
}
