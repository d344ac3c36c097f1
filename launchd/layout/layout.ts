/** The paths and the account of an installation. Pure: the plist, the unit and all steps follow from it. */
import * as z from "zod";
import { LAUNCHD_LABEL } from "../../src/api/group.ts";

/** system: starts at boot, under its own account. user: a LaunchAgent that runs as the user from login to logout. */
const scopeSchema = z.enum(["system", "user"]);

export type InstallScope = z.infer<typeof scopeSchema>;

export const installLayoutSchema = z
  .object({
    manager: z.enum(["launchd", "systemd"]),
    scope: scopeSchema,
    /** Folder of `versions/`, `current` and `previous`. The program's path in the plist never names a version. */
    prefix: z.string(),
    /** Path of the plist or unit. */
    definition: z.string(),
    configFile: z.string(),
    /** `metalbridge join` stores the credential here, and the agent replaces it when it renews the credential. */
    kubeconfig: z.string(),
    stateDir: z.string(),
    /** The log that the agent writes and rotates; undefined if the journal stores it. */
    agentLog: z.string().optional(),
    /** Output before the agent opens its log, and the last output before a crash. launchd writes it. */
    crashLog: z.string().optional(),
    /** The link on the PATH of a terminal. */
    command: z.string(),
    /** Undefined: the user who installs. */
    account: z.string().optional(),
    /** Domain of launchctl, such as `system` or `gui/501`. */
    domain: z.string(),
  })
  .readonly();

export type InstallLayout = z.infer<typeof installLayoutSchema>;

export const UNIT = "metalbridge-agent.service";

export interface LayoutInput {
  readonly platform: "darwin" | "linux";
  readonly scope: InstallScope;
  /** All paths are below this folder; "" for the real root. */
  readonly root: string;
  readonly home: string;
  readonly uid: number;
  readonly account?: string | undefined;
  readonly stateDir?: string | undefined;
}

export function layoutFor(input: LayoutInput): InstallLayout {
  const { platform, scope, root } = input;
  if (platform === "linux") return linux(input);
  return scope === "system" ? daemon(input) : launchAgent({ ...input, home: `${root}${input.home}` });
}

/** The folders and links below the prefix. */
export const placesBelow = (prefix: string) => ({
  versions: `${prefix}/versions`,
  current: `${prefix}/current`,
  previous: `${prefix}/previous`,
  choices: `${prefix}/install.json`,
});

/** The agent's socket, which reports its pid and version. */
export function socketOf({ stateDir }: Pick<InstallLayout, "stateDir">): string {
  return `${stateDir}/agent.sock`;
}

function daemon({ root, account = "_metalbridge", stateDir }: LayoutInput): InstallLayout {
  const state = stateDir ?? `${root}/usr/local/var/metalbridge`;
  return {
    manager: "launchd",
    scope: "system",
    prefix: `${root}/usr/local/lib/metalbridge`,
    definition: `${root}/Library/LaunchDaemons/${LAUNCHD_LABEL}.plist`,
    configFile: `${root}/usr/local/etc/metalbridge/agent.yaml`,
    kubeconfig: `${state}/kubeconfig`,
    stateDir: state,
    agentLog: `${state}/logs/agent.log`,
    crashLog: `${root}/Library/Logs/Metalbridge/agent.crash.log`,
    command: `${root}/usr/local/bin/metalbridge`,
    account,
    domain: "system",
  };
}

function launchAgent({ home, uid, stateDir }: LayoutInput): InstallLayout {
  const state = stateDir ?? `${home}/Library/Application Support/metalbridge`;
  return {
    manager: "launchd",
    scope: "user",
    prefix: `${home}/.local/lib/metalbridge`,
    definition: `${home}/Library/LaunchAgents/${LAUNCHD_LABEL}.plist`,
    configFile: `${home}/.config/metalbridge/agent.yaml`,
    kubeconfig: `${state}/kubeconfig`,
    stateDir: state,
    agentLog: `${state}/logs/agent.log`,
    crashLog: `${home}/Library/Logs/Metalbridge/agent.crash.log`,
    command: `${home}/.local/bin/metalbridge`,
    domain: `gui/${uid}`,
  };
}

function linux({ root, account = "metalbridge", stateDir }: LayoutInput): InstallLayout {
  const state = stateDir ?? `${root}/var/lib/metalbridge`;
  return {
    manager: "systemd",
    scope: "system",
    prefix: `${root}/usr/local/lib/metalbridge`,
    definition: `${root}/etc/systemd/system/${UNIT}`,
    configFile: `${root}/etc/metalbridge/agent.yaml`,
    kubeconfig: `${state}/kubeconfig`,
    stateDir: state,
    command: `${root}/usr/local/bin/metalbridge`,
    account,
    domain: "system",
  };
}
