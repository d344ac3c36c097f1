/** What launchd and systemd run: the same command line on both. Pure. */
import { type InstallLayout, placesBelow } from "./layout.ts";

/** With the folders of Homebrew, where engines are. */
export const agentPath = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/** Environment of an agent with an account of its own, whatever starts it. */
export function agentEnvironment(stateDir: string): { readonly PATH: string; readonly HOME: string } {
  return { PATH: agentPath, HOME: stateDir };
}

/** What an agent needs to stop without draining, and what comes on top of a drain. */
const STOP_MARGIN_SECONDS = 15;

/** Until TERM becomes KILL. `drainSeconds` is 0 where the engines outlive the agent. */
export function stopSeconds(drainSeconds: number): number {
  return drainSeconds + STOP_MARGIN_SECONDS;
}

/**
 * Node and the program by the link `current`, so that an upgrade changes no plist or unit, and launchd knows the program by
 * one path. Paths are absolute: launchd expands neither ~ nor variables.
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
