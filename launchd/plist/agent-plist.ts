/** The agent's launchd job. Pure. docs/install-a-mac.md explains the keys to users. */
import { LAUNCHD_LABEL } from "../../src/api/group.ts";
import { agentCommand, agentPath, stopSeconds } from "../layout/agent-command.ts";
import type { InstallLayout } from "../layout/layout.ts";
import { renderPlistXml } from "./xml.ts";

/** Minimum time between two starts. It alone slows a crash loop, because launchd does not limit the number of starts. */
const THROTTLE_SECONDS = 10;
const MAX_FILES = 65_536;

export function renderAgentPlist(layout: InstallLayout, drainSeconds: number): string {
  const { account, scope, crashLog, stateDir } = layout;
  return renderPlistXml({
    Label: LAUNCHD_LABEL,
    ...(account === undefined ? {} : { UserName: account }),
    ProgramArguments: agentCommand(layout),
    // Values must be strings. launchd's default PATH lacks the folders of Homebrew.
    EnvironmentVariables: { PATH: agentPath, ...(scope === "system" ? { HOME: stateDir } : {}) },
    WorkingDirectory: "/",
    RunAtLoad: true,
    KeepAlive: true,
    ThrottleInterval: THROTTLE_SECONDS,
    // Without it, launchd throttles CPU and I/O of the agent and its engines.
    ProcessType: "Interactive",
    // Without it, launchd kills the engines in the job's process group when the agent exits.
    AbandonProcessGroup: true,
    // 0 would wait without a limit.
    ExitTimeOut: stopSeconds(drainSeconds),
    // A string is read as octal, an integer as decimal.
    Umask: "077",
    // Not for a daemon, whose value also becomes the sysctl kern.maxfiles of the whole Mac and may lower it. Node raises its
    // limit to the hard limit at start, and engines inherit that limit.
    ...(scope === "user" ? { SoftResourceLimits: { NumberOfFiles: MAX_FILES } } : {}),
    // launchd appends to this file and never rotates it, so it is only for the output of a crash.
    ...(crashLog === undefined ? {} : { StandardOutPath: crashLog, StandardErrorPath: crashLog }),
  });
}
