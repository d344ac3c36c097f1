/** Accounts of a replayed machine: `dscl` on macOS; `getent`, `useradd` and `userdel` on Linux. */
import type { Answer, Call, Replayed } from "./replayed-commands.ts";

export interface Directory {
  readonly commands: Readonly<Record<string, Replayed>>;
  readonly idsOf: (account: string) => { readonly uid: number; readonly gid: number } | undefined;
  /** Records by path, such as /Users/_www. */
  readonly records: Map<string, Map<string, string>>;
  /** An account with that number, and its group's. */
  readonly add: (account: string, id: number) => void;
}

const NOT_FOUND: Answer = { code: 56, err: "<dscl_cmd> DS Error: -14136 (eDSRecordNotFound)\n" };
const NOT_ROOT: Answer = { code: 40, err: "<main> attribute status: eDSPermissionError\n" };

export function startDirectory(): Directory {
  const records = new Map<string, Map<string, string>>([
    [
      "/Users/_www",
      new Map([
        ["UniqueID", "70"],
        ["PrimaryGroupID", "70"],
        ["RealName", "World Wide Web Server"],
      ]),
    ],
    [
      "/Users/_taken",
      new Map([
        ["UniqueID", "420"],
        ["PrimaryGroupID", "420"],
      ]),
    ],
    ["/Groups/_taken", new Map([["PrimaryGroupID", "420"]])],
  ]);
  const dscl = ({ args: [, verb, record = "", key, value], euid }: Call): Answer => {
    if (verb === "-list") return list(record, key ?? "");
    if (verb === "-read") return read(record);
    if (euid !== 0) return NOT_ROOT;
    return verb === "-delete" ? remove(record) : create(record, key, value);
  };
  const remove = (record: string): Answer => (records.delete(record) ? {} : NOT_FOUND);
  const create = (record: string, key?: string, value?: string): Answer => {
    const fields = records.get(record) ?? new Map<string, string>();
    if (key !== undefined && value !== undefined) fields.set(key, value);
    records.set(record, fields);
    return {};
  };
  const list = (folder: string, key: string): Answer => {
    const found = [...records].filter(([path]) => path.startsWith(`${folder}/`));
    return {
      out: found
        .map(([path, fields]) => `${path.slice(folder.length + 1).padEnd(24)}${fields.get(key) ?? ""}\n`)
        .join(""),
    };
  };
  const read = (record: string): Answer => {
    const fields = records.get(record);
    if (fields === undefined) return NOT_FOUND;
    // A value with blanks stands on a line of its own.
    return {
      out: [...fields]
        .map(([key, value]) => (value.includes(" ") ? `${key}:\n ${value}\n` : `${key}: ${value}\n`))
        .join(""),
    };
  };
  const idsOf = (account: string) => {
    const fields = records.get(`/Users/${account}`);
    const [uid, gid] = [fields?.get("UniqueID"), fields?.get("PrimaryGroupID")];
    return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
  };
  const getent = ({ args: [kind, name = ""] }: Call): Answer => {
    const ids = idsOf(name);
    if (ids === undefined || kind !== "passwd") return { code: 2 };
    const fullName = records.get(`/Users/${name}`)?.get("RealName") ?? "";
    return { out: `${name}:x:${ids.uid}:${ids.gid}:${fullName}:/:/usr/sbin/nologin\n` };
  };
  const useradd = ({ args, euid }: Call): Answer => {
    if (euid !== 0) return { code: 1, err: "useradd: Permission denied.\n" };
    const [name = "", comment = ""] = [args.at(-1), args[args.indexOf("--comment") + 1]];
    if (records.has(`/Users/${name}`)) return { code: 9, err: `useradd: user '${name}' already exists\n` };
    records.set(
      `/Users/${name}`,
      new Map([
        ["UniqueID", "990"],
        ["PrimaryGroupID", "990"],
        ["RealName", comment],
      ]),
    );
    return {};
  };
  const userdel = ({ args: [name = ""] }: Call): Answer =>
    records.delete(`/Users/${name}`) ? {} : { code: 6, err: `userdel: user '${name}' does not exist\n` };
  const add = (account: string, id: number) =>
    records.set(`/Users/${account}`, new Map(["UniqueID", "PrimaryGroupID"].map((key) => [key, `${id}`])));
  return { records, idsOf, add, commands: { dscl, getent, useradd, userdel } };
}
