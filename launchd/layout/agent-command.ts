/** The command line of the agent, which is the same for launchd and systemd. Pure. */
import { type InstallLayout, placesBelow } from "./layout.ts";

/** Includes the folders of Homebrew, where engines are installed. */
export const agentPath = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/** Environment of an agent that runs under its own account. */
export function agentEnvironment(stateDir: string): { readonly PATH: string; readonly HOME: string } {
  return { PATH: agentPath, HOME: stateDir };
}

/** Time that an agent needs to stop in addition to a drain. */
const STOP_MARGIN_SECONDS = 15;

/** Time between SIGTERM and SIGKILL. `drainSeconds` is 0 if the engines outlive the agent. */
export function stopSeconds(drainSeconds: number): number {
  return drainSeconds + STOP_MARGIN_SECONDS;
}

/**
 * Uses the link `current` for Node and the program, so that an upgrade changes no plist or unit and launchd sees one program
 * path. Paths are absolute, because launchd expands neither ~ nor variables.
 */
export function agentCommand(layout: InstallLayout): readonly string[] {
  const { current } = placesBelow(layout.prefix);
  return [
    `${current}/bin/node`,
    `${current}/cli/metalbridge.mjs`,
    "agent",
    ...["--config", layout.configFile],
    ...["--state-dir", layout.stateDir],
    ...(layout.agentLog === undefined ? [] : ["--log-file", layout.agentLog]),
  ];
}
