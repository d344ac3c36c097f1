/** Plans the remaining steps of an uninstall. Pure. */
import { dirname } from "node:path/posix";
import { type InstallLayout, placesBelow } from "../layout/layout.ts";
import type { ObservedInstallation } from "./observed.ts";
import type { InstallStep } from "./steps.ts";

export interface UninstallInput {
  readonly layout: InstallLayout;
  readonly observed: ObservedInstallation;
  /** Removes the model store too. */
  readonly purge: boolean;
  /** Names in the state folder; undefined if there is none. */
  readonly stateEntries: readonly string[] | undefined;
}

/** This folder of the state folder is retained by default, because weights take days to download. */
export const MODEL_STORE = "models";

/** Removes the service first, so that nothing is restarted, and the record of the installation last. */
export function planUninstall({
  layout,
  observed,
  purge,
  stateEntries,
}: UninstallInput): readonly InstallStep[] {
  const places = placesBelow(layout.prefix);
  const { engines } = observed;
  const inOwnFolders = [layout.configFile, layout.crashLog].filter((path) => path !== undefined);
  const paths = [layout.definition, layout.command, ...inOwnFolders];
  const folders = inOwnFolders.map((path) => dirname(path));
  const keepsModels = !purge && stateEntries?.includes(MODEL_STORE) === true;
  return [
    ...(observed.job.at === "loaded" ? [{ do: "unload" } as const] : []),
    ...(engines !== 0 ? [{ do: "stop engines", count: engines } as const] : []),
    // launchd needs no such step, because it reads its folder of plists at boot.
    ...(layout.manager === "systemd" ? [{ do: "forget" } as const] : []),
    ...paths.map((path) => ({ do: "remove", path, owner: "installer" }) as const),
    ...folders.map((path) => ({ do: "remove if empty", path }) as const),
    ...stateSteps(layout, keepsModels, stateEntries),
    ...(layout.account !== undefined && !keepsModels && observed.account !== "missing"
      ? [{ do: "remove account", name: layout.account } as const]
      : []),
    { do: "remove", path: places.versions, owner: "installer" },
    { do: "remove", path: layout.prefix, owner: "installer" },
  ];
}

/** The account is retained with the store, because otherwise another account could get the uid of the store's files. */
function stateSteps(
  { stateDir }: InstallLayout,
  keepsModels: boolean,
  stateEntries: readonly string[] | undefined,
): readonly InstallStep[] {
  if (stateEntries === undefined) return [];
  if (!keepsModels) return [{ do: "remove", path: stateDir, owner: "account" }];
  return stateEntries
    .filter((name) => name !== MODEL_STORE)
    .map((name) => ({ do: "remove", path: `${stateDir}/${name}`, owner: "account" }));
}
