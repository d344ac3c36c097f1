/** The account on Linux. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type Command, commandFailure } from "../../src/util/command.ts";
import { type AccountState, type Accounts, FULL_NAME } from "./account.ts";

const USER_MISSING = 6;

export function createUseraddAccounts(run: Command): Accounts {
  const observe = async (name: string): Promise<AccountState> => {
    const { exitCode, stdout } = await run("getent", ["passwd", name]);
    const [, , uid, gid, fullName] = stdout.trim().split(":");
    if (exitCode !== 0 || uid === undefined) return { at: "missing" };
    return { at: "present", uid: Number(uid), gid: Number(gid), isOurs: fullName === FULL_NAME };
  };
  return {
    observe,
    create: async (name, home) => {
      const group = await run("getent", ["group", name]);
      const result = await run("useradd", [
        ...["--system", "--no-create-home", "--home-dir", home, "--shell", "/usr/sbin/nologin"],
        ...["--comment", FULL_NAME, ...(group.exitCode === 0 ? ["--gid", name] : ["--user-group"]), name],
      ]);
      if (result.exitCode !== 0)
        throw new MetalbridgeError("InstallFailed", `useradd ${name}: ${commandFailure(result)}`);
    },
    remove: async (name) => {
      const result = await run("userdel", [name]);
      if (result.exitCode !== 0 && result.exitCode !== USER_MISSING)
        throw new MetalbridgeError("InstallFailed", `userdel ${name}: ${commandFailure(result)}`);
    },
  };
}
