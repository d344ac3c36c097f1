/** Plans the remaining steps until a version is installed and runs. Pure and total: an interrupted install is planned again. */
import { type InstallLayout, placesBelow } from "../layout/layout.ts";
import type { ObservedInstallation } from "./observed.ts";
import type { InstallStep } from "./steps.ts";

/** Empty if nothing needs to change. refuse.ts has already refused invalid requests. */
export function planInstall(
  layout: InstallLayout,
  version: string,
  observed: ObservedInstallation,
): readonly InstallStep[] {
  return [
    ...accountSteps(layout, observed),
    // Staging needs the most space, so it runs before other changes, in case the disk is full.
    ...(observed.versions.includes(version) ? [] : [{ do: "stage", version } as const]),
    ...makeSteps(observed, (path) => path !== layout.definition),
    ...switchSteps(version, observed),
    ...makeSteps(observed, (path) => path === layout.definition),
    ...serviceSteps(layout, version, observed),
  ];
}

/** Plans the steps after the version was found to work: marks it as proven, and removes versions that no rollback needs. */
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

/** A file of root that an install replaces, with its text before the install: configuration, definition or record. */
export interface ReplacedFile {
  readonly path: string;
  readonly text: string;
}

/** The state before an install. */
export interface PreviousInstall {
  /** The current version. */
  readonly version: string | undefined;
  readonly replaced: readonly ReplacedFile[];
}

/**
 * Plans the return to the version and the files that this run replaced, or else to the proven version before it. Restores
 * only the files if the current version was already installed and has served with them. Empty if no rollback is possible.
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
    return [{ do: "make", entry: { ...entry, text: before.text, keepsExisting: false }, because: "differs" }];
  });
  const isReloaded = replaced.some(({ path }) => path === layout.definition);
  // The agent never served in this state, so it is killed without waiting for it to stop.
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

function makeSteps(
  { entries }: ObservedInstallation,
  isIncluded: (path: string) => boolean,
): readonly InstallStep[] {
  return entries
    .filter(({ entry, state }) => isIncluded(entry.path) && state.is !== "correct")
    .map(({ entry, state }) => ({
      do: "make",
      entry,
      because: state.is === "missing" ? "missing" : "differs",
    }));
}

/** `previous` never names a version that has not served, such as a version that an interrupted run switched to. */
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
    ({ entry, state }) => entry.path === layout.definition && state.is !== "correct",
  );
  if (isChanged) return [{ do: "reload" }];
  // The agent reads its configuration at start. If an agent from a terminal answers instead, the restart reports it.
  const hasNewFiles = entries.some(({ entry, state }) => entry.kind === "file" && state.is !== "correct");
  const isInPlace = current === version && versions.includes(version);
  const runsIt = isInPlace && agent.at === "answers" && agent.version === version;
  return runsIt && !hasNewFiles ? [] : [{ do: "restart" }];
}
