/** The agent's launchd job. Pure; every key has its reason, and docs/install-a-mac.md says it to users. */
import { agentCommand, agentPath, stopSeconds } from "../layout/agent-command.ts";
import { type InstallLayout, LABEL } from "../layout/layout.ts";
import { type PlistDict, renderPlistXml } from "./xml.ts";

/** Between two starts; launchd has no limit on their number, so this alone slows a crash loop. */
const THROTTLE_SECONDS = 10;
const MAX_FILES = 65_536;

export function renderAgentPlist(layout: InstallLayout, drainSeconds: number): string {
  return renderPlistXml(agentJob(layout, drainSeconds));
}

function agentJob(layout: InstallLayout, drainSeconds: number): PlistDict {
  const { account, scope, crashLog, stateDir } = layout;
  return {
    Label: LABEL,
    ...(account === undefined ? {} : { UserName: account }),
    ProgramArguments: agentCommand(layout),
    // Strings only, and launchd's own PATH lacks Homebrew's folders.
    EnvironmentVariables: { PATH: agentPath, ...(scope === "system" ? { HOME: stateDir } : {}) },
    WorkingDirectory: "/",
    RunAtLoad: true,
    KeepAlive: true,
    ThrottleInterval: THROTTLE_SECONDS,
    // Unset means that launchd throttles CPU and I/O, of the engines too.
    ProcessType: "Interactive",
    // Else launchd kills whatever is left in the job's process group when the agent ends.
    AbandonProcessGroup: true,
    // Not 0, which waits without limit.
    ExitTimeOut: stopSeconds(drainSeconds),
    // Octal as a string; the same number as an integer would be decimal.
    Umask: "077",
    // Only here: a daemon's value also becomes the sysctl kern.maxfiles of the whole Mac, and may lower it. Node raises
    // its own limit to the hard one at start, and engines inherit that.
    ...(scope === "user" ? { SoftResourceLimits: { NumberOfFiles: MAX_FILES } } : {}),
    // Opened once per start, appended to and never rotated: for a crash's last words only.
    ...(crashLog === undefined ? {} : { StandardOutPath: crashLog, StandardErrorPath: crashLog }),
  };
}
