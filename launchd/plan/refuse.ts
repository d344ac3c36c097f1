/** What install and upgrade do not do, decided before anything is changed. Pure. */
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
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
  /** Who owns what is in the state folder already; undefined when there is nothing. */
  readonly stateOwner: number | undefined;
  /** What is in the state folder; undefined when there is none. */
  readonly stateEntries?: readonly string[] | undefined;
  /** The first folder above it that is not root's. */
  readonly aboveState?: { readonly at: string; readonly uid: number } | undefined;
  /** The folder below /Volumes that is to hold it, where no volume is mounted. */
  readonly unmounted?: string | undefined;
  /** Whom it should belong to; undefined while the account does not exist. */
  readonly accountUid: number | undefined;
}

/** What shows that an agent has run on a folder; the first comes with its first contact to the cluster. */
const OF_AN_AGENT: readonly string[] = ["instance-id", "agent.sock", "desired", "engines"];
/** What join, an interrupted install and an uninstall leave there. */
const BEFORE_AN_AGENT: readonly string[] = ["kubeconfig", "logs", MODEL_STORE];

export function installRefusalOf(
  request: InstallRequest,
  observed: ObservedInstallation,
): MetalbridgeError | undefined {
  return (
    requireRoot(request) ??
    downgrade(request, observed) ??
    foreign(request, observed) ??
    withoutVolume(request) ??
    belowStranger(request) ??
    strangersState(request)
  );
}

/** For every verb that changes the service. */
export function requireRoot({
  layout,
  euid,
}: Pick<InstallRequest, "layout" | "euid">): MetalbridgeError | undefined {
  if ((layout.domain === "system") === (euid === 0)) return undefined;
  return euid === 0
    ? error("RootRefused", `${layout.definition} belongs to a user`)
    : error("RootRequired", `${layout.definition} belongs to the system`);
}

function downgrade(
  { version, allowDowngrade }: InstallRequest,
  { current }: ObservedInstallation,
): MetalbridgeError | undefined {
  if (allowDowngrade || current === undefined || !isVersion(current)) return undefined;
  if (compareReleases(version, current) >= 0) return undefined;
  return error("DowngradeRefused", `version ${version} is older than the installed ${current}`);
}

function foreign(
  { layout, takeOver }: InstallRequest,
  { job, entries }: ObservedInstallation,
): MetalbridgeError | undefined {
  if (takeOver) return undefined;
  if (job.at === "loaded" && job.path !== undefined && job.path !== layout.definition)
    return error(
      "ServiceForeign",
      `the running service was loaded from ${job.path}, not from ${layout.definition}`,
    );
  const strange = entries.find(({ state }) => state.is === "different" && !state.isOurs);
  if (strange === undefined) return undefined;
  return error("ServiceForeign", `${strange.entry.path} was not made by this installation`);
}

/** Its models would fill the disk of the system, and be hidden once the volume is mounted. */
function withoutVolume({ layout, unmounted }: InstallRequest): MetalbridgeError | undefined {
  if (unmounted === undefined) return undefined;
  return new MetalbridgeError("StateDirUnusable", `no volume is mounted at ${unmounted}`, {
    summary: `mount the volume that ${layout.stateDir} belongs to, or choose another folder with --state-dir`,
  });
}

/** Neither the agent's account nor root with its rights could make the state folder there, and that owner can replace it. */
function belowStranger({ layout, aboveState, accountUid }: InstallRequest): MetalbridgeError | undefined {
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

/** Files of others in there would stop the agent, and uninstall would remove them. */
function strangersState({
  layout,
  stateOwner,
  accountUid,
  stateEntries = [],
}: InstallRequest): MetalbridgeError | undefined {
  const strange = stateEntries.some((name) => OF_AN_AGENT.includes(name))
    ? undefined
    : stateEntries.find((name) => !BEFORE_AN_AGENT.includes(name.split(".")[0] ?? ""));
  if (strange !== undefined)
    return new MetalbridgeError(
      "ServiceForeign",
      `${layout.stateDir} holds files that are not the agent's: ${strange}`,
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

function error(code: ErrorCode, message: string): MetalbridgeError {
  return new MetalbridgeError(code, message);
}
