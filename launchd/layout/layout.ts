/** Where an installation puts what, and under whose name it runs. Pure: the plist, the unit and all steps follow from it. */

/** system: starts at boot, under an account of its own. user: a LaunchAgent, from login to logout, as that user. */
export type Scope = "system" | "user";

export interface InstallLayout {
  readonly manager: "launchd" | "systemd";
  readonly scope: Scope;
  /** Where `versions/`, `current` and `previous` are; the program's path in the plist never names a version. */
  readonly prefix: string;
  /** The plist or unit. */
  readonly definition: string;
  readonly configFile: string;
  readonly kubeconfig: string;
  readonly stateDir: string;
  /** What the agent writes and rotates itself; undefined where the journal keeps it. */
  readonly agentLog?: string | undefined;
  /** What launchd writes before the agent opens its own log, and a crash's last words. */
  readonly crashLog?: string | undefined;
  /** The link on the PATH of a terminal. */
  readonly command: string;
  /** Undefined: the user who installs. */
  readonly account?: string | undefined;
  /** Of launchctl, such as `system` or `gui/501`. */
  readonly domain: string;
}

export const LABEL = "dev.metalbridge.agent";
export const UNIT = "metalbridge-agent.service";

export interface LayoutInput {
  readonly platform: "darwin" | "linux";
  readonly scope: Scope;
  /** All paths are below this folder; "" for the real one. */
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

/** The agent's socket, which answers with pid and version. */
export function socketOf({ stateDir }: Pick<InstallLayout, "stateDir">): string {
  return `${stateDir}/agent.sock`;
}

/** Where `metalbridge join` stores the credential, and the agent looks for one: it replaces it there when it renews it. */
function kubeconfigIn(stateDir: string): string {
  return `${stateDir}/kubeconfig`;
}

function daemon({ root, account = "_metalbridge", stateDir }: LayoutInput): InstallLayout {
  const state = stateDir ?? `${root}/usr/local/var/metalbridge`;
  return {
    manager: "launchd",
    scope: "system",
    prefix: `${root}/usr/local/lib/metalbridge`,
    definition: `${root}/Library/LaunchDaemons/${LABEL}.plist`,
    configFile: `${root}/usr/local/etc/metalbridge/agent.yaml`,
    kubeconfig: kubeconfigIn(state),
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
    definition: `${home}/Library/LaunchAgents/${LABEL}.plist`,
    configFile: `${home}/.config/metalbridge/agent.yaml`,
    kubeconfig: kubeconfigIn(state),
    stateDir: state,
    agentLog: `${state}/logs/agent.log`,
    crashLog: `${home}/Library/Logs/Metalbridge/agent.crash.log`,
    command: `${home}/.local/bin/metalbridge`,
    account: undefined,
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
    kubeconfig: kubeconfigIn(state),
    stateDir: state,
    agentLog: undefined,
    crashLog: undefined,
    command: `${root}/usr/local/bin/metalbridge`,
    account,
    domain: "system",
  };
}
