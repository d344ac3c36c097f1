/** Runs a command for the stored models. Every user of this machine that may open the agent's socket can send one. */
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { ReplicaSnapshot } from "../replicas/context/ports.ts";
import type { FetchProgress, ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";
import type { ModelCommand, ModelResult } from "./protocol.ts";

export interface CommandPorts {
  readonly store: Pick<ModelStore, "list" | "fetch" | "pin" | "unpin" | "remove" | "clean" | "verify">;
  readonly replicas: () => readonly Pick<ReplicaSnapshot, "uid" | "namespace" | "name">[];
  readonly hostName: string;
  /** False until the models that the replicas use are known. */
  readonly mayRemove: () => boolean;
  readonly onDamaged: (file: VerifiedFile) => void;
}

export interface CommandRun {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: FetchProgress) => void;
}

/** Throws MetalbridgeError if the command is refused or fails. */
export async function runModelCommand(
  command: ModelCommand,
  ports: CommandPorts,
  run: CommandRun,
): Promise<ModelResult> {
  const { store } = ports;
  switch (command.do) {
    case "list":
      return { at: "models", models: await store.list() };
    case "pull": {
      const { do: _, ...request } = command;
      const { sizeBytes } = await store.fetch(request, run);
      return { at: "changed", isChanged: true, sizeBytes };
    }
    case "pin":
      return pin(command.source, store);
    case "unpin":
      return unpin(command.source, ports);
    case "rm":
      return { at: "changed", isChanged: true, sizeBytes: await remove(command.source, ports) };
    case "gc":
      requireKnown(ports);
      return { at: "models", models: await store.clean() };
    case "verify": {
      for (const source of command.sources ?? []) await find(source, store);
      const sources = command.sources?.map(publicSource);
      const files = await store.verify({ ...run, sources, onDamaged: ports.onDamaged });
      return { at: "verified", files };
    }
    default:
      return command satisfies never;
  }
}

/** Throws ModelNotStored. */
async function find(source: string, store: CommandPorts["store"]) {
  const found = (await store.list()).find((model) => model.source === publicSource(source));
  if (found === undefined) throw notStored(source);
  return found;
}

function notStored(source: string): MetalbridgeError {
  return new MetalbridgeError("ModelNotStored", `the store of this host has no ${publicSource(source)}`);
}

async function pin(source: string, store: CommandPorts["store"]): Promise<ModelResult> {
  const { pinned } = await find(source, store);
  await store.pin(source);
  return { at: "changed", isChanged: !pinned };
}

async function unpin(source: string, { store, hostName }: CommandPorts): Promise<ModelResult> {
  const result = await store.unpin(source);
  if (result === "declared")
    throw new MetalbridgeError(
      "ModelPinned",
      `spec.models.pinned of this host's Host object names ${publicSource(source)}`,
      {
        summary: "unpin it in the Host object",
        command: `metalbridge models unpin ${publicSource(source)} --host ${hostName}`,
      },
    );
  if (result === "wasNot") await find(source, store);
  return { at: "changed", isChanged: result === "unpinned" };
}

async function remove(source: string, ports: CommandPorts): Promise<number> {
  requireKnown(ports);
  const removal = await ports.store.remove(source);
  const shown = publicSource(source);
  switch (removal.at) {
    case "removed":
      return removal.sizeBytes;
    case "absent":
      throw notStored(source);
    case "pinned":
      throw new MetalbridgeError(
        "ModelPinned",
        `${shown} is pinned`,
        remedyOf("ModelPinned", { source: shown }),
      );
    case "inUse":
      throw new MetalbridgeError("ModelInUse", `${shown} is used by ${usersOf(removal.owners, ports)}`);
    default:
      return removal satisfies never;
  }
}

function usersOf(owners: readonly string[], { replicas }: CommandPorts): string {
  const names = new Map(replicas().map(({ uid, namespace, name }) => [uid, `${namespace}/${name}`]));
  const known = owners.flatMap((owner) => names.get(owner) ?? []).sort();
  return known.length === 0 ? "a download" : known.join(", ");
}

function requireKnown({ mayRemove }: CommandPorts): void {
  if (mayRemove()) return;
  throw new MetalbridgeError(
    "ModelInUse",
    "the agent has not read its replicas yet, so every model may be in use",
    { summary: "wait until it has started" },
  );
}
