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
    // An agent that waits for its API server must not count as failed, regardless of the number of starts.
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    ...(account === undefined ? [] : [`User=${account}`]),
    `ExecStart=${agentCommand(layout).map(quote).join(" ")}`,
    "Restart=always",
    "RestartSec=1",
    // Engines outlive the agent, even if it was killed. Without these, systemd would stop the other processes of the unit.
    "KillMode=process",
    "OOMPolicy=continue",
    `TimeoutStopSec=${stopSeconds(drainSeconds)}`,
    "UMask=0077",
    "LimitNOFILE=65536",
    // The engines run in this unit too, so it has no limit for tasks.
    "TasksMax=infinity",
    "NoNewPrivileges=yes",
    "",
    "[Install]",
    "WantedBy=multi-user.target",
    "",
  ].join("\n")}`;
}

/** systemd expands % and $, and splits at spaces. */
function quote(text: string): string {
  const escaped = text
    .replaceAll("%", "%%")
    .replaceAll("$", "$$$$")
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"');
  return /^[\w/.:@%=+,-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
