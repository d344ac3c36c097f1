/**
 * The one place where root writes, reads and removes in folders of other accounts. There it has the rights of the account
 * and no others, so that links, hard links, FIFOs and swapped folders lead only to what the account may change itself.
 */
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Owner } from "./plan/entries.ts";

export interface Ids {
  readonly uid: number;
  readonly gid: number;
}

/** As many as the kernels follow. */
const MAX_LINKS = 32;
const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

/** Runs `work` with the rights of the first account besides root that can change where `path` leads; as root if none can. */
export function asOwnerOf<T>(path: string, work: () => T): T {
  const account = process.geteuid?.() === 0 ? accountControlling(path) : undefined;
  return account === undefined ? work() : withRightsOf(account, work);
}

/** Synchronous: nothing else of this process runs meanwhile. */
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
    // Root needs no others, and macOS may report more than it accepts.
    process.setgroups?.([own]);
  }
}

/** Undefined: every part of the path, links included, belongs to root. Throws for a folder that any account may change. */
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
        throw refused("EACCES", `every account may change ${next}: chmod o-w ${next}`);
      at = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw refused("ELOOP", `${path} leads through too many links`);
    const target = readlinkSync(next);
    if (target.startsWith("/")) at = "/";
    names.unshift(...target.split("/").filter(Boolean));
  }
  return undefined;
}

/** `ids` undefined: whoever runs this, who cannot give files away. */
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
    try {
      const file = openSync(temporary, "wx", 0o600);
      try {
        writeFileSync(file, text);
        give(file, mode, ids);
        fsyncSync(file);
      } finally {
        closeSync(file);
      }
      renameSync(temporary, path);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  });
}

/** Corrects an existing file or folder. */
export function correctOwner(path: string, mode: number, ids: Ids | undefined): void {
  inFolderOf(path, ids, () => setOwner(path, mode, ids));
}

/** What belongs to root is root's to write, also below a folder of others: Homebrew gives some in /usr/local to a user. */
function inFolderOf(path: string, ids: Ids | undefined, work: () => void): void {
  if (ids === undefined || ids.uid === 0) work();
  else asOwnerOf(dirname(path), work);
}

/** Always the same: what a killed run left is replaced by the next. */
export function temporaryOf(path: string): string {
  return `${path}.metalbridge-new`;
}

/** Removing one with all it holds is for whoever reads this: it is not ours, and what is in it is not known. */
function refuseFolder(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
    throw refused(
      "EISDIR",
      `${path} is a folder, where a file belongs: remove it (rm -r '${path}') and retry`,
    );
}

function setOwner(path: string, mode: number, ids: Ids | undefined): void {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    give(file, mode, ids);
  } finally {
    closeSync(file);
  }
}

/** A file with a second name elsewhere is never given away. */
function give(file: number, mode: number, ids: Ids | undefined): void {
  const found = fstatSync(file);
  if (ids !== undefined && (found.uid !== ids.uid || found.gid !== ids.gid)) {
    if (!found.isDirectory() && !(found.isFile() && found.nlink === 1))
      throw refused("EPERM", "the file has another name too, or is not a regular file: remove it");
    fchownSync(file, ids.uid, ids.gid);
  }
  fchmodSync(file, mode);
}

/**
 * Removes a file or a folder with all it holds; nothing to do when it is gone. Each folder in it is entered, and then known
 * by its inode: whoever may change a folder meanwhile cannot lead the removal elsewhere. What stands above has no such
 * proof: what is the account's is removed with the rights of whoever can change where the path leads.
 */
export function removeTree(path: string, owner: Owner): void {
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
  requireHere(found, name);
  for (const entry of readdirSync(".")) removeEntry(entry);
  process.chdir("..");
  requireHere(parent, name);
  rmdirSync(name);
}

function requireHere({ dev, ino }: { readonly dev: number; readonly ino: number }, name: string): void {
  const here = statSync(".");
  if (here.dev !== dev || here.ino !== ino)
    throw refused("EBUSY", `${name} was moved while it was removed: run the command again`);
}

function refused(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
