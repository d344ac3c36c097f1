/**
 * A Linux host of a farm: a station of a test network with files of its own where an installation writes, and systemd as it is
 * replayed. It shares everything else with this machine. Commands run in it as root.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { replayCommands } from "./launchd/replayed-commands.ts";
import { type Systemd, startSystemd } from "./launchd/systemd.ts";
import type { Station } from "./network.ts";
import { run } from "./run.ts";
import { send } from "./signal.ts";
import { until } from "./until.ts";

export interface LinuxHost extends AsyncDisposable {
  readonly name: string;
  readonly address: string;
  readonly systemd: Systemd;
  /** A program that runs SSH_ORIGINAL_COMMAND in it, for an sshd to start at each login. */
  readonly shell: string;
  /** Where this machine sees a file of the host's: below etc, usr/local, var/lib or root. */
  readonly at: (file: string) => string;
  readonly run: (...argv: readonly string[]) => Promise<string>;
}

/** Its own folders: where they lie in `dir`, and where the host sees them. */
const OWN = { etc: "/etc", "usr/local": "/usr/local", "var/lib": "/var/lib", root: "/root" } as const;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** `names`: lines of its /etc/hosts. */
export async function startLinuxHost(station: Station, names: readonly string[]): Promise<LinuxHost> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await temporaryFolder()).path;
  const at = (file: string) => path.join(dir, file);
  for (const folder of ["usr/local/sbin", "var/lib", "root"]) mkdirSync(at(folder), { recursive: true });
  const holder = await hold(station, dir);
  stack.defer(() => endAll(namespaceOf(holder)));
  writeFileSync(at("etc/hosts"), `127.0.0.1 localhost\n${names.join("\n")}\n`);
  writeFileSync(at("etc/machine-id"), `${randomUUID().replaceAll("-", "")}\n`);
  const target = ["nsenter", `--target=${holder}`, "--mount", "--net", "--wd=/root"];
  const enter = (...more: readonly string[]) => [...target, ...more, "--"];
  const systemd = startSystemd({
    folder: at("etc/systemd/system"),
    namedFolder: "/etc/systemd/system",
    idsOf: (account) => idsIn(at("etc/passwd"), account),
    inside: (ids) => enter(...(ids === undefined ? [] : [`--setgid=${ids.gid}`, `--setuid=${ids.uid}`])),
  });
  const replayed = stack.use(await replayCommands({ systemctl: systemd.systemctl }));
  stack.defer(() => systemd.stopAll());
  symlinkSync(path.join(replayed.bin, "systemctl"), at("usr/local/sbin/systemctl"));
  const clean = ["env", "-i", "HOME=/root", "USER=root", "LANG=C.UTF-8", `PATH=${PATH}`];
  writeFileSync(
    at("shell"),
    `#!/bin/sh\nexec ${[...enter(), ...clean].join(" ")} /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n`,
    { mode: 0o755 },
  );
  const kept = stack.move();
  return {
    name: station.name,
    address: station.address,
    systemd,
    shell: at("shell"),
    at,
    run: (...argv) => {
      const [program = "", ...args] = [...enter(), ...clean, ...argv];
      return run(program, args, { cwd: "/", timeoutMs: 300_000 });
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The process that keeps the namespace of mounts; every step replaces itself by the next, so the pid stays. */
async function hold({ namespace }: Station, dir: string): Promise<number> {
  const mounts = Object.entries(OWN).map(([own, place]) => `mount --bind ${path.join(dir, own)} ${place}`);
  const script = [
    `cp -a /etc ${path.join(dir, "etc")}`,
    `mkdir -p ${path.join(dir, "etc/systemd/system")}`,
    ...mounts,
    "mount -t tmpfs -o mode=755 tmpfs /run",
    "echo ready",
    "exec sleep infinity",
  ].join(" && ");
  const command = [`--net=/run/netns/${namespace}`, "unshare", "--mount", "sh", "-c", script];
  const child = spawn("nsenter", command, { stdio: ["ignore", "pipe", "inherit"], cwd: "/" });
  await Promise.race([
    once(child.stdout, "data"),
    once(child, "exit").then(() => Promise.reject(new Error(`no host ${namespace}`))),
  ]);
  return child.pid ?? 0;
}

function namespaceOf(pid: number | string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

/** Also what an agent has left running; what starts meanwhile is seen in the next round. */
async function endAll(namespace: string | undefined): Promise<void> {
  if (namespace === undefined) return;
  await until(
    () => {
      const pids = readdirSync("/proc").filter(
        (name) => /^\d+$/.test(name) && namespaceOf(name) === namespace,
      );
      for (const pid of pids) send(Number(pid), "SIGKILL");
      if (pids.length > 0) throw new Error(`processes do not end: ${pids.join(", ")}`);
    },
    { everyMs: 5 },
  );
}

function idsIn(file: string, account: string): { readonly uid: number; readonly gid: number } | undefined {
  const line = readFileSync(file, "utf8")
    .split("\n")
    .find((one) => one.startsWith(`${account}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}
