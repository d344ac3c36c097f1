/** The account on macOS, in the local directory and hidden from the login screen. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type Command, commandFailure } from "../../src/util/command.ts";
import { type AccountState, type Accounts, FULL_NAME } from "./account.ts";

/** Ids of service accounts are below 500, where the ids of people begin. */
const FIRST_ID = 420;
const LAST_ID = 499;

export function createDsclAccounts(run: Command): Accounts {
  const dscl = async (...args: readonly string[]): Promise<string> => {
    const result = await run("dscl", [".", ...args]);
    if (result.exitCode === 0) return result.stdout;
    throw new MetalbridgeError("InstallFailed", `dscl ${args.join(" ")}: ${commandFailure(result)}`);
  };
  const read = async (record: string): Promise<ReadonlyMap<string, string> | undefined> => {
    const result = await run("dscl", [".", "-read", record]);
    return result.exitCode === 0 ? parseRecord(result.stdout) : undefined;
  };
  const observe = async (name: string): Promise<AccountState> => {
    const user = await read(`/Users/${name}`);
    const group = await read(`/Groups/${name}`);
    if (user === undefined) return group === undefined ? { at: "missing" } : { at: "incomplete" };
    const [uid, gid] = [user.get("UniqueID"), user.get("PrimaryGroupID")].map(Number);
    if (!isId(uid) || !isId(gid)) return { at: "incomplete" };
    return { at: "present", uid, gid, isOurs: user.get("RealName") === FULL_NAME };
  };
  const create = async (name: string, home: string): Promise<void> => {
    const existing = await read(`/Groups/${name}`);
    const id = existing?.get("PrimaryGroupID") ?? String(await freeId(dscl));
    const [user, group] = [`/Users/${name}`, `/Groups/${name}`];
    const records: readonly (readonly string[])[] = [
      [group],
      [group, "PrimaryGroupID", id],
      [group, "RealName", FULL_NAME],
      [user],
      [user, "RealName", FULL_NAME],
      [user, "UserShell", "/usr/bin/false"],
      [user, "NFSHomeDirectory", home],
      [user, "IsHidden", "1"],
      [user, "Password", "*"],
      [user, "PrimaryGroupID", id],
      // This record is last, because a user without it counts as incomplete.
      [user, "UniqueID", id],
    ];
    for (const record of records) await dscl("-create", ...record);
  };
  const remove = async (name: string): Promise<void> => {
    for (const record of [`/Users/${name}`, `/Groups/${name}`])
      if ((await read(record)) !== undefined) await dscl("-delete", record);
  };
  return { observe, create, remove };
}

async function freeId(dscl: (...args: readonly string[]) => Promise<string>): Promise<number> {
  const lists = [await dscl("-list", "/Users", "UniqueID"), await dscl("-list", "/Groups", "PrimaryGroupID")];
  const used = new Set(
    lists.flatMap((text) => text.split("\n").map((line) => Number(line.trim().split(/\s+/)[1]))),
  );
  for (let id = FIRST_ID; id <= LAST_ID; id += 1) if (!used.has(id)) return id;
  throw new MetalbridgeError("InstallFailed", `no free account number from ${FIRST_ID} to ${LAST_ID}`);
}

/** Parses lines `Key: value`. A value with spaces is on the next line after a space. Pure. */
function parseRecord(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let key: string | undefined;
  for (const line of text.split("\n")) {
    const match = /^([^\s:]+(?::[^\s:]+)?):(?: (.*))?$/.exec(line);
    if (match === null && key !== undefined && line.startsWith(" ")) fields.set(key, line.slice(1));
    else if (match?.[1] !== undefined) {
      key = match[1];
      fields.set(key, match[2] ?? "");
    }
  }
  return fields;
}

function isId(value: number | undefined): value is number {
  return value !== undefined && Number.isInteger(value);
}
