/** The agent's systemd unit. Pure. */
import { agentCommand, stopSeconds } from "../layout/agent-command.ts";
import type { InstallLayout } from "../layout/layout.ts";

export function renderUnit(layout: InstallLayout, drainSeconds: number): string {
  const { account } = layout;
  return `${[
    "# Written by metalbridge install, which overwrites changes; put yours into a drop-in (systemctl edit metalbridge-agent).",
    "[Unit]",
    "Description=Metalbridge agent",
    "Wants=network-online.target",
    "After=network-online.target",
    // An agent that waits for its API server is no failure, however often it starts.
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    ...(account === undefined ? [] : [`User=${account}`]),
    `ExecStart=${agentCommand(layout).map(quote).join(" ")}`,
    "Restart=always",
    "RestartSec=1",
    // Engines outlive the agent, also one that was killed; without these systemd would stop the unit's other processes.
    "KillMode=process",
    "OOMPolicy=continue",
    `TimeoutStopSec=${stopSeconds(drainSeconds)}`,
    "UMask=0077",
    "LimitNOFILE=65536",
    // The engines are in this unit too: no memory limit, no limit of tasks.
    "TasksMax=infinity",
    "NoNewPrivileges=yes",
    "",
    "[Install]",
    "WantedBy=multi-user.target",
    "",
  ].join("\n")}`;
}

/** systemd expands % and $, and splits at blanks. */
function quote(text: string): string {
  const escaped = text
    .replaceAll("%", "%%")
    .replaceAll("$", "$$$$")
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"');
  return /^[\w/.:@%=+,-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
