/** Decides which installs and upgrades are refused, before anything is changed. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InstallLayout } from "../layout/layout.ts";
import type { ObservedInstallation } from "./observed.ts";
import { MODEL_STORE } from "./uninstall.ts";
import { compareReleases, isVersion } from "./version.ts";

export interface InstallRequest {
  readonly layout: InstallLayout;
  readonly version: string;
  readonly euid: number;
  readonly allowDowngrade: boolean;
  /** Replace a service of our name that we did not install. */
  readonly takeOver: boolean;
  /** Owner of the existing state folder; undefined if there is none. */
  readonly stateOwner: number | undefined;
  /** Names in the state folder; undefined if there is none. */
  readonly stateEntries?: readonly string[] | undefined;
  /** The first folder above the state folder that does not belong to root. */
  readonly aboveState?: { readonly at: string; readonly uid: number } | undefined;
  /** The folder of the state folder below /Volumes, if no volume is mounted on it. */
  readonly unmounted?: string | undefined;
  /** Required owner of the state folder; undefined while the account does not exist. */
  readonly accountUid: number | undefined;
}

/** Names that show that an agent has run in a folder. The first is created with its first contact to the cluster. */
const AGENT_ENTRIES: readonly string[] = ["instance-id", "agent.sock", "desired", "engines"];
/** Names that join, an interrupted install or an uninstall leave in a folder. */
const INSTALL_ENTRIES: readonly string[] = ["kubeconfig", "logs", MODEL_STORE];

export function installRefusalOf(
  request: InstallRequest,
  observed: ObservedInstallation,
): MetalbridgeError | undefined {
  return (
    requireRoot(request) ??
    downgrade(request, observed) ??
    foreignService(request, observed) ??
    unmountedVolume(request) ??
    foreignParent(request) ??
    foreignState(request)
  );
}

/** Applies to every verb that changes the service. */
export function requireRoot({
  layout,
  euid,
}: Pick<InstallRequest, "layout" | "euid">): MetalbridgeError | undefined {
  if ((layout.domain === "system") === (euid === 0)) return undefined;
  return euid === 0
    ? new MetalbridgeError("RootRefused", `${layout.definition} belongs to a user`)
    : new MetalbridgeError("RootRequired", `${layout.definition} belongs to the system`);
}

function downgrade(
  { version, allowDowngrade }: InstallRequest,
  { current }: ObservedInstallation,
): MetalbridgeError | undefined {
  if (allowDowngrade || current === undefined || !isVersion(current)) return undefined;
  if (compareReleases(version, current) >= 0) return undefined;
  return new MetalbridgeError(
    "DowngradeRefused",
    `version ${version} is older than the installed ${current}`,
  );
}

function foreignService(
  { layout, takeOver }: InstallRequest,
  { job, entries }: ObservedInstallation,
): MetalbridgeError | undefined {
  if (takeOver) return undefined;
  if (job.at === "loaded" && job.path !== undefined && job.path !== layout.definition)
    return new MetalbridgeError(
      "ServiceForeign",
      `the running service was loaded from ${job.path}, not from ${layout.definition}`,
    );
  const foreign = entries.find(({ state }) => state.is === "different" && !state.isOurs);
  if (foreign === undefined) return undefined;
  return new MetalbridgeError("ServiceForeign", `${foreign.entry.path} was not made by this installation`);
}

/** Models would fill the system disk, and would be hidden once the volume is mounted. */
function unmountedVolume({ layout, unmounted }: InstallRequest): MetalbridgeError | undefined {
  if (unmounted === undefined) return undefined;
  return new MetalbridgeError("StateDirUnusable", `no volume is mounted at ${unmounted}`, {
    summary: `mount the volume that ${layout.stateDir} belongs to, or choose another folder with --state-dir`,
  });
}

/** The agent's account could not create the state folder there, and the owner of the parent folder could replace it. */
function foreignParent({ layout, aboveState, accountUid }: InstallRequest): MetalbridgeError | undefined {
  if (aboveState === undefined || aboveState.uid === accountUid) return undefined;
  const { at, uid } = aboveState;
  return new MetalbridgeError(
    "StateDirUnusable",
    `${at}, above ${layout.stateDir}, belongs to the account with uid ${uid}`,
    {
      summary: "give it to root, or choose another folder with --state-dir",
      command: `sudo chown root:${layout.manager === "launchd" ? "wheel" : "root"} '${at}'`,
    },
  );
}

/** Foreign files in the state folder would stop the agent, and uninstall would remove them. */
function foreignState({
  layout,
  stateOwner,
  accountUid,
  stateEntries = [],
}: InstallRequest): MetalbridgeError | undefined {
  const foreign = stateEntries.some((name) => AGENT_ENTRIES.includes(name))
    ? undefined
    : stateEntries.find((name) => !INSTALL_ENTRIES.includes(name.split(".")[0] ?? ""));
  if (foreign !== undefined)
    return new MetalbridgeError(
      "ServiceForeign",
      `${layout.stateDir} holds files that are not the agent's: ${foreign}`,
      {
        summary:
          "choose an empty or a new folder with --state-dir: all of it belongs to the agent, and uninstall removes it",
      },
    );
  if (stateOwner === undefined || stateOwner === 0 || stateOwner === accountUid) return undefined;
  const remedy = {
    summary: "install with --user and that account, or choose another folder with --state-dir",
  };
  const message = `${layout.stateDir} belongs to the account with uid ${stateOwner}`;
  return new MetalbridgeError("ServiceForeign", message, remedy);
}
