import { expect, test } from "vitest";
import { layoutFor } from "../layout/layout.ts";
import type { ObservedInstallation } from "./observed.ts";
import { planUninstall } from "./uninstall.ts";

const at = { root: "", home: "/Users/me", uid: 501 } as const;
const daemon = layoutFor({ ...at, platform: "darwin", scope: "system" });
const launchAgent = layoutFor({ ...at, platform: "darwin", scope: "user" });
const unit = layoutFor({ ...at, platform: "linux", scope: "system" });
const gone: ObservedInstallation = {
  account: "missing",
  versions: [],
  partials: [],
  proven: [],
  current: undefined,
  previous: undefined,
  entries: [],
  job: { at: "absent", isDisabled: false },
  agent: { at: "none" },
  engines: 0,
};
const job: ObservedInstallation["job"] = {
  at: "loaded" as const,
  isDisabled: false,
  path: undefined,
  state: "running",
  pid: 5,
  runs: 1,
  lastExit: undefined,
  isLeaving: false,
};

/** As an operator reads them. */
function stepsOf(
  layout: typeof daemon,
  observed: Partial<ObservedInstallation> = {},
  stateEntries?: readonly string[],
  purge = false,
): string[] {
  const steps = planUninstall({ layout, observed: { ...gone, ...observed }, purge, stateEntries });
  return steps.map(({ do: what, ...more }) => [what, ...Object.values(more)].join(" "));
}

test("an uninstall on a machine without an installation stops nothing", () => {
  expect(stepsOf(daemon)).toEqual([
    "remove /Library/LaunchDaemons/dev.metalbridge.agent.plist installer",
    "remove /usr/local/bin/metalbridge installer",
    "remove /usr/local/etc/metalbridge/agent.yaml installer",
    "remove /Library/Logs/Metalbridge/agent.crash.log installer",
    "remove if empty /usr/local/etc/metalbridge",
    "remove if empty /Library/Logs/Metalbridge",
    "remove /usr/local/lib/metalbridge/versions installer",
    "remove /usr/local/lib/metalbridge installer",
  ]);
});

test("an agent of systemd is stopped first, and its unit is forgotten before it is removed", () => {
  expect(stepsOf(unit, { job, account: "present", engines: 2 }, ["engines"])).toEqual([
    "unload",
    "stop engines 2",
    "forget",
    "remove /etc/systemd/system/metalbridge-agent.service installer",
    "remove /usr/local/bin/metalbridge installer",
    "remove /etc/metalbridge/agent.yaml installer",
    "remove if empty /etc/metalbridge",
    "remove /var/lib/metalbridge account",
    "remove account metalbridge",
    "remove /usr/local/lib/metalbridge/versions installer",
    "remove /usr/local/lib/metalbridge installer",
  ]);
});

test.each<[number | undefined, readonly string[]]>([
  [undefined, ["stop engines "]],
  [0, []],
  [1, ["stop engines 1"]],
  [3, ["stop engines 3"]],
])("uninstall stops engines where there are any, or may be: %s", (engines, expected) => {
  expect(stepsOf(daemon, { engines }).filter((step) => step.startsWith("stop"))).toEqual(expected);
});

const ACCOUNT = "remove account _metalbridge";
const STATE = daemon.stateDir;
test.each<
  [string, typeof daemon, readonly string[] | undefined, boolean, ObservedInstallation["account"], string[]]
>([
  [
    "the model store and its account stay",
    daemon,
    ["models", "e"],
    false,
    "present",
    [`remove ${STATE}/e account`],
  ],
  ["both are purged", daemon, ["models"], true, "present", [`remove ${STATE} account`, ACCOUNT]],
  ["without a store all goes", daemon, ["e"], false, "present", [`remove ${STATE} account`, ACCOUNT]],
  ["without a state folder too", daemon, undefined, false, "present", [ACCOUNT]],
  ["an account that is gone is no step", daemon, ["e"], false, "missing", [`remove ${STATE} account`]],
  ["one half made is removed", daemon, undefined, false, "incomplete", [ACCOUNT]],
  [
    "a user keeps the own account",
    launchAgent,
    [],
    false,
    "not needed",
    [`remove ${launchAgent.stateDir} account`],
  ],
])("of the state folder and the account: %s", (_, layout, stateEntries, purge, account, expected) => {
  const steps = stepsOf(layout, { account }, stateEntries, purge);
  expect(steps.filter((step) => step.includes("account") || step.includes(layout.stateDir))).toEqual(
    expected,
  );
});
