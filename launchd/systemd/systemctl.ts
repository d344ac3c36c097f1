/** The agent's unit in systemd. */
import { rm } from "node:fs/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type Command, commandFailure } from "../../src/util/command.ts";
import { UNIT } from "../layout/layout.ts";
import type { ManagedJob } from "../plan/observed.ts";
import type { ServiceManager } from "../ports.ts";

const PROPERTIES =
  "LoadState,ActiveState,SubState,MainPID,NRestarts,ExecMainStatus,FragmentPath,UnitFileState";

export function createSystemctl(run: Command, definition: string): ServiceManager {
  const call = async (...args: readonly string[]): Promise<void> => {
    const result = await run("systemctl", args);
    if (result.exitCode !== 0)
      throw new MetalbridgeError("ServiceLoadFailed", `systemctl ${args[0]}: ${commandFailure(result)}`);
  };
  const observe = async (): Promise<ManagedJob> => {
    const shown = await run("systemctl", ["show", UNIT, `--property=${PROPERTIES}`]);
    if (shown.exitCode !== 0)
      throw new MetalbridgeError("ServiceLoadFailed", `systemctl show: ${commandFailure(shown)}`);
    return parseShow(shown.stdout);
  };
  const start = async (verb: "start" | "restart"): Promise<void> => {
    await call("daemon-reload");
    // `enable` fails for a unit that an administrator has masked.
    await call("enable", UNIT);
    await run("systemctl", ["reset-failed", UNIT]);
    await call(verb, UNIT);
  };
  return {
    observe,
    load: () => start("start"),
    restart: () => start("restart"),
    kill: async () => {
      // The command fails without a process, which needs no action.
      await run("systemctl", ["kill", "--kill-who=main", "--signal=KILL", UNIT]);
    },
    unload: () => call("stop", UNIT),
    // `disable` reads the unit and daemon-reload must not find it, so the file is removed between the two.
    forget: async () => {
      await run("systemctl", ["disable", UNIT]);
      await rm(definition, { force: true });
      await call("daemon-reload");
      await run("systemctl", ["reset-failed", UNIT]);
    },
  };
}

/** A unit that is not active counts as absent, because systemd reads its file again at every start. */
export function parseShow(text: string): ManagedJob {
  const fields = new Map(
    text.split("\n").map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }),
  );
  const isDisabled = fields.get("UnitFileState") === "masked";
  const active = fields.get("ActiveState") ?? "inactive";
  const path = fields.get("FragmentPath");
  if (active === "inactive" || (active === "failed" && fields.get("MainPID") === "0"))
    return { at: "absent", isDisabled };
  const pid = Number(fields.get("MainPID") ?? "0");
  return {
    at: "loaded",
    isDisabled,
    path: path === "" ? undefined : path,
    state: `${active} (${fields.get("SubState") ?? "unknown"})`,
    pid: pid > 0 ? pid : undefined,
    runs: Number(fields.get("NRestarts") ?? "0") + 1,
    lastExit: pid > 0 ? undefined : fields.get("ExecMainStatus"),
    isLeaving: active === "deactivating",
  };
}
