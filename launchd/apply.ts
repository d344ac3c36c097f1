/** Applies one step. Each step is safe to repeat, and leaves either the old state or the new one. */
import { lstat, mkdir, rename, rm, rmdir, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import {
  correctOwner,
  type Ids,
  makeOwnedFolder,
  removeTree,
  replaceFile,
  temporaryOf,
} from "./account-files.ts";
import { type InstallLayout, placesBelow, socketOf } from "./layout/layout.ts";
import type { InstallEntry } from "./plan/entries.ts";
import type { InstallStep } from "./plan/steps.ts";
import type { InstallPorts } from "./ports.ts";
import { knownGoodMark, type ReleaseSource } from "./release/stage.ts";
import { drainEngines } from "./stop-engines.ts";

export type ApplyInstallStep = (step: InstallStep) => Promise<void>;

/** `source` is the release to stage. */
export function createApply(
  ports: InstallPorts,
  layout: InstallLayout,
  source?: ReleaseSource,
): ApplyInstallStep {
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
        return replaceLink(previous, `versions/${step.previous}`);
      case "switch":
        return replaceLink(current, `versions/${step.version}`);
      case "approve":
        return replaceFile(knownGoodMark(versions, step.version), "", { mode: 0o644 });
      case "load":
        return supervisor.load();
      case "reload":
        return uninterrupted(async () => {
          await supervisor.unload();
          await supervisor.load();
        });
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
        return removeTree(step.path, step.owner);
      case "remove if empty":
        return rmdir(step.path).catch(() => undefined);
      default:
        return step satisfies never;
    }
  };
}

const STOPPING = ["SIGHUP", "SIGINT", "SIGTERM"] as const;

/** Ignores signals, because an interruption by Ctrl-C or a closed terminal would leave the machine without its agent. */
async function uninterrupted(work: () => Promise<void>): Promise<void> {
  const ignore = () => undefined;
  for (const signal of STOPPING) process.on(signal, ignore);
  try {
    await work();
  } finally {
    for (const signal of STOPPING) process.off(signal, ignore);
  }
}

/** The owner of the entry; undefined for a user who cannot change the owner of files. */
async function idsOf(
  { accounts, euid }: InstallPorts,
  { account }: InstallLayout,
  { kind, ...entry }: InstallEntry,
): Promise<Ids | undefined> {
  if (euid !== 0 || kind === "link") return undefined;
  if (account === undefined || !("owner" in entry) || entry.owner === "installer") return { uid: 0, gid: 0 };
  const found = await accounts.observe(account);
  return found.at === "present" ? { uid: found.uid, gid: found.gid } : undefined;
}

async function make(entry: InstallEntry, ids: Ids | undefined): Promise<void> {
  switch (entry.kind) {
    case "found":
      return correctOwner(entry.path, entry.mode, ids);
    case "folder":
      return makeOwnedFolder(entry.path, entry.mode, ids);
    case "link":
      await mkdir(dirname(entry.path), { recursive: true });
      return replaceLink(entry.path, entry.target);
    case "file": {
      const exists = await lstat(entry.path).catch(() => undefined);
      return entry.keepsExisting && exists?.isFile() === true
        ? correctOwner(entry.path, entry.mode, ids)
        : replaceFile(entry.path, entry.text, { mode: entry.mode, ids });
    }
    default:
      return entry satisfies never;
  }
}

/** Replaces a link by rename, so that it always exists. */
export async function replaceLink(path: string, target: string): Promise<void> {
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

async function removeOwnAccount({ accounts }: InstallPorts, name: string): Promise<void> {
  const found = await accounts.observe(name);
  if (found.at === "incomplete" || (found.at === "present" && found.isOurs)) await accounts.remove(name);
}
