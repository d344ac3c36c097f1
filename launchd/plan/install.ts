/** What is left to do until a version is installed and runs. Pure and total: an interrupted install is planned again. */
import { type InstallLayout, placesBelow } from "../layout/layout.ts";
import type { InstallEntry } from "./entries.ts";
import type { EntryState, ObservedInstallation } from "./observed.ts";
import type { InstallStep } from "./steps.ts";

/** Empty when everything is as it should be. What must be refused was refused before (refuse.ts). */
export function planInstall(
  layout: InstallLayout,
  version: string,
  observed: ObservedInstallation,
): readonly InstallStep[] {
  return [
    ...accountSteps(layout, observed),
    // What needs the most room comes first: on a full disk nothing else has changed.
    ...stageSteps(version, observed),
    ...fileSteps(layout, observed),
    ...switchSteps(version, observed),
    ...definitionSteps(layout, observed),
    ...serviceSteps(layout, version, observed),
  ];
}

/** After the version was seen to work: it is marked so, and what no rollback needs is removed. */
export function planCleanup(layout: InstallLayout, observed: ObservedInstallation): readonly InstallStep[] {
  const { versions } = placesBelow(layout.prefix);
  const { current, proven } = observed;
  const approve: readonly InstallStep[] =
    current === undefined || proven.includes(current) ? [] : [{ do: "approve", version: current }];
  const unneeded = observed.versions.filter(
    (version) => version !== observed.current && version !== observed.previous,
  );
  const remove = [...unneeded, ...observed.partials].map(
    (name): InstallStep => ({ do: "remove", path: `${versions}/${name}`, owner: "installer" }),
  );
  return [...approve, ...remove];
}

/** What an install replaces that root owns, with the text that stands there now: configuration, definition and record. */
export interface ReplacedFile {
  readonly path: string;
  readonly text: string;
}

/** What an install found. */
export interface PreviousInstall {
  /** That was the current one. */
  readonly version: string | undefined;
  readonly replaced: readonly ReplacedFile[];
}

/**
 * Back to the version that this run replaced and the files that it ran with, else to the one that has served before it;
 * only to the files when the current version was installed before and has served with them. Empty when there is nothing
 * to go back to.
 */
export function planRollback(
  layout: InstallLayout,
  observed: ObservedInstallation,
  { version, replaced }: PreviousInstall,
): readonly InstallStep[] {
  const { current, previous, versions, proven } = observed;
  const isItself = current !== undefined && version === current && proven.includes(current);
  const back = (isItself ? [] : [version, previous]).find(
    (one) => one !== undefined && one !== current && versions.includes(one) && proven.includes(one),
  );
  if (back === undefined && (!isItself || replaced.length === 0)) return [];
  const restore = observed.entries.flatMap(({ entry }): readonly InstallStep[] => {
    const before = replaced.find(({ path }) => path === entry.path);
    if (before === undefined || entry.kind !== "file") return [];
    return [{ do: "make", entry: { ...entry, text: before.text, isKept: false }, because: "differs" }];
  });
  const isReloaded = replaced.some(({ path }) => path === layout.definition);
  // It never served like this: nothing in it is worth the time that a stopping agent may take.
  const again: readonly InstallStep[] =
    observed.job.at === "loaded"
      ? [{ do: "kill" }, { do: isReloaded ? "reload" : "restart" }]
      : [{ do: "load" }];
  return [...(back === undefined ? [] : [{ do: "switch", version: back } as const]), ...restore, ...again];
}

function accountSteps({ account }: InstallLayout, observed: ObservedInstallation): readonly InstallStep[] {
  const isMissing = observed.account === "missing" || observed.account === "incomplete";
  return account !== undefined && isMissing ? [{ do: "create account", name: account }] : [];
}

function fileSteps(layout: InstallLayout, observed: ObservedInstallation): readonly InstallStep[] {
  return observed.entries.filter(({ entry }) => entry.path !== layout.definition).flatMap(makeStep);
}

function definitionSteps(layout: InstallLayout, observed: ObservedInstallation): readonly InstallStep[] {
  return observed.entries.filter(({ entry }) => entry.path === layout.definition).flatMap(makeStep);
}

function makeStep({
  entry,
  state,
}: {
  readonly entry: InstallEntry;
  readonly state: EntryState;
}): readonly InstallStep[] {
  if (state.is === "as wanted") return [];
  return [{ do: "make", entry, because: state.is === "missing" ? "missing" : "differs" }];
}

function stageSteps(version: string, { versions }: ObservedInstallation): readonly InstallStep[] {
  return versions.includes(version) ? [] : [{ do: "stage", version }];
}

/** `previous` never names a version that has not served, such as one that an interrupted run has switched to. */
function switchSteps(
  version: string,
  { versions, proven, current, previous }: ObservedInstallation,
): readonly InstallStep[] {
  if (current === version) return [];
  const canGoBack = current !== undefined && versions.includes(current) && proven.includes(current);
  const remember: readonly InstallStep[] =
    canGoBack && previous !== current ? [{ do: "remember", previous: current }] : [];
  return [...remember, { do: "switch", version }];
}

function serviceSteps(
  layout: InstallLayout,
  version: string,
  observed: ObservedInstallation,
): readonly InstallStep[] {
  const { job, agent, entries, current, versions } = observed;
  if (job.at === "absent" || job.isLeaving) return [{ do: "load" }];
  const isChanged = entries.some(
    ({ entry, state }) => entry.path === layout.definition && state.is !== "as wanted",
  );
  if (isChanged) return [{ do: "reload" }];
  // Configuration is read at start. The agent may be a stranger in a terminal: then the restart says so.
  const hasNewFiles = entries.some(({ entry, state }) => entry.kind === "file" && state.is !== "as wanted");
  const isInPlace = current === version && versions.includes(version);
  const runsIt = isInPlace && agent.at === "answers" && agent.version === version;
  return runsIt && !hasNewFiles ? [] : [{ do: "restart" }];
}
