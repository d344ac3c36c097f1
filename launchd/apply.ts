/** Does one step. Each is safe to repeat, and leaves either the old thing or the new one. */
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, rename, rm, rmdir, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import { type Layout, placesBelow, socketOf } from "./layout.ts";
import { uidOf } from "./observe.ts";
import type { Entry } from "./plan/entries.ts";
import type { Step } from "./plan/steps.ts";
import type { Ports } from "./ports.ts";
import { provenMark, type Source } from "./release/stage.ts";
import { drainEngines } from "./stop-engines.ts";

export type Apply = (step: Step) => Promise<void>;

/** `source` is where a version comes from. */
export function createApply(ports: Ports, layout: Layout, source?: Source): Apply {
  const { accounts, supervisor } = ports;
  const { versions, current, previous } = placesBelow(layout.prefix);
  return async (step) => {
    switch (step.do) {
      case "create account":
        return accounts.create(step.name, layout.stateDir);
      case "remove account":
        return removeOwnAccount(ports, step.name);
      case "stage":
        return source?.stage(versions);
      case "make":
        return make(step.entry, await idsOf(ports, layout, step.entry));
      case "remember":
        return pointLink(previous, `versions/${step.previous}`);
      case "switch":
        return pointLink(current, `versions/${step.version}`);
      case "approve":
        return replaceFile(provenMark(versions, step.version), "", { mode: 0o644, ids: undefined });
      case "load":
        return supervisor.load();
      case "reload":
        await supervisor.unload();
        return supervisor.load();
      case "restart":
        return supervisor.restart();
      case "kill":
        return supervisor.kill();
      case "unload":
        return supervisor.unload();
      case "forget":
        return supervisor.forget();
      case "stop engines":
        return drainEngines(ports, layout, socketOf(layout));
      case "remove":
        return rm(step.path, { recursive: true, force: true });
      case "remove if empty":
        return rmdir(step.path).catch(() => undefined);
      default:
        return step satisfies never;
    }
  };
}

interface Ids {
  readonly uid: number;
  readonly gid: number;
}

/** Undefined: whoever runs this, who cannot give files away. */
async function idsOf(
  { accounts, euid }: Ports,
  { account }: Layout,
  { kind, ...entry }: Entry,
): Promise<Ids | undefined> {
  if (euid !== 0 || kind === "link") return undefined;
  if (account === undefined || !("owner" in entry) || entry.owner === "installer") return { uid: 0, gid: 0 };
  const found = await accounts.observe(account);
  return found.at === "present" ? { uid: found.uid, gid: found.gid } : undefined;
}

async function make(entry: Entry, ids: Ids | undefined): Promise<void> {
  if (entry.kind === "found") return setOwner(entry.path, entry.mode, ids);
  await mkdir(dirname(entry.path), { recursive: true });
  if (entry.kind === "link") return pointLink(entry.path, entry.target);
  if (entry.kind === "folder") return makeFolder(entry.path, entry.mode, ids);
  const exists = await lstat(entry.path).catch(() => undefined);
  if (entry.isKept && exists?.isFile() === true) return setOwner(entry.path, entry.mode, ids);
  await replaceFile(entry.path, entry.text, { mode: entry.mode, ids });
}

async function makeFolder(path: string, mode: number, ids: Ids | undefined): Promise<void> {
  await mkdir(path, { recursive: true });
  await setOwner(path, mode, ids);
}

/** Never through a link: in the state folder the agent's account could put one that leads to a file of root's. */
async function setOwner(path: string, mode: number, ids: Ids | undefined): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    await give(file, mode, ids);
  } finally {
    await file.close();
  }
}

async function give(file: FileHandle, mode: number, ids: Ids | undefined): Promise<void> {
  if (ids !== undefined) await file.chown(ids.uid, ids.gid);
  await file.chmod(mode);
}

async function replaceFile(
  path: string,
  text: string,
  { mode, ids }: { readonly mode: number; readonly ids: Ids | undefined },
): Promise<void> {
  const temporary = temporaryOf(path);
  await rm(temporary, { force: true });
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
      await give(file, mode, ids);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Always the same: what a killed run left is replaced by the next. */
function temporaryOf(path: string): string {
  return `${path}.metalbridge-new`;
}

/** A link is replaced by rename: at no moment is there none. */
async function pointLink(path: string, target: string): Promise<void> {
  const temporary = temporaryOf(path);
  await rm(temporary, { force: true });
  try {
    await symlink(target, temporary);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function removeOwnAccount({ accounts }: Ports, name: string): Promise<void> {
  const found = await accounts.observe(name);
  const isOurs =
    found.at === "incomplete" || (uidOf(found) !== undefined && found.at === "present" && found.isOurs);
  if (isOurs) await accounts.remove(name);
}
