/** Manages the models of hosts through the cluster: Host.spec.models has the desired state, Host.status the current state. */
import { randomUUID } from "node:crypto";
import type { ModelCommand } from "../../agent/store-maintenance/protocol.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host, HostModel, HostModels } from "../../src/api/host.ts";
import { hostModelsSchema } from "../../src/api/host-spec.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { explainAttempt, unwrapResult } from "../cluster/failure.ts";
import { findObject } from "../cluster/find.ts";
import { follow } from "../cluster/follow.ts";

export interface HostChangeOptions {
  readonly signal: AbortSignal;
  /** 0: no limit. */
  readonly timeoutMs: number;
  /** Prints a line of progress. */
  readonly report: (line: string) => void;
}

export type ChangingCommand = Exclude<ModelCommand, { do: "list" }>;
type Stored = HostModel;

/** The models of a command, before and after it. */
export interface ModelsChange {
  readonly before: readonly Stored[];
  readonly after: readonly Stored[];
}

/** A change of Host.spec.models, and how the host reports its completion. */
interface Change {
  readonly write: (models: HostModels) => HostModels;
  /** True once the host is done. Throws a failure that the host reports as final. */
  readonly isDone: (host: Host) => boolean;
  /** The models of the command, before the change. */
  readonly models: readonly Stored[];
  readonly progress?: (host: Host) => string | undefined;
}

/** Runs a command on a host. Undefined after Ctrl-C. Throws HostNotFound, ModelCommandNotFinished, and the errors of `planChange`. */
export async function changeModelsOnHost(
  cluster: Cluster,
  name: string,
  command: ChangingCommand,
  run: HostChangeOptions,
): Promise<ModelsChange | undefined> {
  const change = planChange(await findObject(cluster, HOSTS, name), command);
  await writeModels(cluster, name, change.write);
  let reported: string | undefined;
  const end = await follow<Host>(cluster, run, ({ watch, finish, fail }) => {
    const hosts = watch(HOSTS, { fieldSelector: `metadata.name=${name}` }, () => {
      const host = hosts.get(name);
      if (host === undefined)
        return fail(new MetalbridgeError("HostNotFound", `Host ${name} was deleted in the meantime`));
      if (change.isDone(host)) return finish(host);
      const news = change.progress?.(host);
      if (news !== undefined && news !== reported) run.report(news);
      reported = news ?? reported;
    });
  });
  if (end.at === "stopped") return undefined;
  if (end.at === "timedOut")
    throw new MetalbridgeError("ModelCommandNotFinished", `host ${name} did not finish within --timeout`);
  const sources = new Set(change.models.map(({ source }) => source));
  const damaged = new Set(end.value.status?.verifyDamaged);
  const after = storedModelsOf(end.value)
    .filter(({ source }) => sources.has(source))
    .map((model) => (damaged.has(model.source) ? { ...model, damaged: true } : model));
  return { before: change.models, after };
}

export function storedModelsOf({ status }: Host): readonly Stored[] {
  return status?.models ?? [];
}

/** Plans the change for a command. Throws ModelNotStored, ModelInUse or ModelPinned. Pure, except for the id of a verification. */
export function planChange(host: Host, command: ChangingCommand): Change {
  switch (command.do) {
    case "pull":
      return pull(command);
    case "pin":
      return pin(find(host, command.source));
    case "unpin":
      return unpin(host, publicSource(command.source));
    case "rm": {
      const model = find(host, command.source);
      requireFree(host, model);
      return remove([model]);
    }
    case "gc":
      return remove(storedModelsOf(host).filter((model) => isFree(host, model)));
    case "verify":
      return verify(host, command.sources);
    default:
      return command satisfies never;
  }
}

function pull({ do: _, source, ...request }: Extract<ChangingCommand, { do: "pull" }>): Change {
  const shown = publicSource(source);
  const order = JSON.parse(JSON.stringify({ source, ...request })) as HostModels["prefetch"][number];
  const stateOf = ({ status }: Host) =>
    status?.prefetch?.models?.find((one) => one.model === undefined && one.source === shown);
  return {
    models: [{ source: shown }],
    write: (models) => ({
      ...models,
      prefetch: [...models.prefetch.filter((one) => one.source !== source), order],
    }),
    isDone: (host) => {
      const state = stateOf(host);
      if (state?.phase === "Failed")
        throw new MetalbridgeError("ModelCommandFailed", `${state.reason}: ${state.message}`, {
          summary: "fix the problem in the message; the host retries until you remove the request",
          command: `metalbridge models rm ${shown} --host ${host.metadata.name}`,
        });
      return state?.phase === "Ready";
    },
    progress: (host) => {
      const { phase, message, bytes, totalBytes } = stateOf(host) ?? {};
      if (message !== undefined) return message;
      if (phase !== "Downloading" || bytes === undefined || totalBytes === undefined) return phase;
      return `${Math.floor((bytes * 100) / totalBytes)}%`;
    },
  };
}

function pin(model: Stored): Change {
  const { source } = model;
  return {
    models: [model],
    write: (models) => ({ ...models, pinned: [...new Set([...models.pinned, source])].sort() }),
    isDone: (host) => storedModelsOf(host).some((one) => one.source === source && one.pinned === true),
  };
}

function unpin(host: Host, source: string): Change {
  const isDeclared = host.spec.models?.pinned.includes(source) === true;
  if (!isDeclared && find(host, source).pinned === true)
    throw new MetalbridgeError("ModelPinned", `${source} is pinned on host ${host.metadata.name} itself`, {
      summary: "unpin it there",
      command: `metalbridge models unpin ${source}`,
    });
  return {
    models: storedModelsOf(host).filter((one) => one.source === source),
    write: (models) => ({ ...models, pinned: models.pinned.filter((one) => one !== source) }),
    isDone: (now) => storedModelsOf(now).every((one) => one.source !== source || one.pinned !== true),
  };
}

/** A removal names the time of the download, so that a copy that is downloaded later is retained. */
function remove(removed: readonly Stored[]): Change {
  const sources = new Set(removed.map(({ source }) => source));
  const isRemoved = (host: Host, { source, fetchedAt = "" }: Stored) =>
    !storedModelsOf(host).some((one) => one.source === source && (one.fetchedAt ?? "") <= fetchedAt);
  return {
    models: removed,
    write: (models) => ({
      ...models,
      prefetch: models.prefetch.filter(({ source }) => !sources.has(publicSource(source))),
      removed: [
        ...models.removed.filter(({ source }) => !sources.has(source)),
        ...removed.flatMap(({ source, fetchedAt }) =>
          fetchedAt === undefined ? [] : [{ source, fetchedAt }],
        ),
      ],
    }),
    isDone: (host) => {
      for (const model of removed) if (!isRemoved(host, model)) requireFree(host, model);
      return removed.every((model) => isRemoved(host, model));
    },
  };
}

function verify(host: Host, sources: readonly string[] | undefined): Change {
  const request = randomUUID();
  const models = sources?.map((source) => find(host, source)) ?? storedModelsOf(host);
  return {
    models,
    write: (before) => ({ ...before, verifyRequest: request }),
    isDone: ({ status }) => status?.verifyRequest === request,
  };
}

function find(host: Host, source: string): Stored {
  const found = storedModelsOf(host).find((one) => one.source === publicSource(source));
  if (found !== undefined) return found;
  const { name } = host.metadata;
  throw new MetalbridgeError("ModelNotStored", `host ${name} has no ${publicSource(source)}`, {
    summary: "copy the source from the list, or pull it first",
    command: `metalbridge models list --host ${name}`,
  });
}

function isFree({ status }: Host, { source, inUse, pinned }: Stored): boolean {
  const isPrefetched = status?.prefetch?.wanted?.some(({ model }) => publicSource(model.source) === source);
  const isPulled = status?.prefetch?.models?.some((one) => one.model === undefined && one.source === source);
  return inUse !== true && pinned !== true && isPrefetched !== true && isPulled !== true;
}

function requireFree(host: Host, { source }: Stored): void {
  const { name } = host.metadata;
  const now = storedModelsOf(host).find((one) => one.source === source);
  if (now?.inUse === true)
    throw new MetalbridgeError("ModelInUse", `${source} is used by a replica on host ${name}`);
  if (now?.pinned === true)
    throw new MetalbridgeError("ModelPinned", `${source} is pinned on host ${name}`, {
      summary: "unpin it first",
      command: `metalbridge models unpin ${source} --host ${name}`,
    });
  const order = host.status?.prefetch?.wanted?.find(({ model }) => publicSource(model.source) === source);
  if (order !== undefined)
    throw new MetalbridgeError(
      "ModelInUse",
      `${source} is prefetched on host ${name} for Model ${order.namespace}/${order.name}, so it would be downloaded again`,
      { summary: "set spec.prefetch of the Model to false, or choose other hosts in its spec.prefetchHosts" },
    );
}

const ATTEMPTS = 5;

/** Tests the value that was read, so that concurrent writes of two operators are not lost. */
async function writeModels(
  { client }: Cluster,
  name: string,
  change: (models: HostModels) => HostModels,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const host = unwrapResult({ verb: "get", kind: HOSTS, name }, await client.get(HOSTS, { name }));
    const before = host.spec.models;
    const value = pruned(change(hostModelsSchema.parse(before ?? {})), host);
    if (before !== undefined && JSON.stringify(value) === JSON.stringify(hostModelsSchema.parse(before)))
      return;
    const operations: JsonPatchOp[] = [
      { op: "test", path: "/metadata/uid", value: host.metadata.uid },
      ...(before === undefined ? [] : [{ op: "test" as const, path: "/spec/models", value: before }]),
      { op: "add", path: "/spec/models", value },
    ];
    const result = await client.jsonPatch(HOSTS, { name }, operations);
    if (result.ok) return;
    const { kind } = result.error;
    if ((kind !== "conflict" && kind !== "invalid") || attempt === ATTEMPTS)
      throw explainAttempt({ verb: "patch", kind: HOSTS, name }, result.error);
  }
}

/** Drops removals that the host has completed. */
function pruned(models: HostModels, host: Host): HostModels {
  const stored = new Set(storedModelsOf(host).map(({ source }) => source));
  return { ...models, removed: models.removed.filter(({ source }) => stored.has(source)) };
}
