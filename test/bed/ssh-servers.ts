/** Machines that administrators log in to: a real sshd for each, and a configuration of ssh that knows them. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { findSshServer } from "../../scripts/setup/ssh-server.mjs";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { freePort } from "./ports.ts";
import { send } from "./signal.ts";

export interface SshMachine {
  readonly name: string;
  /** Address of this machine, where its sshd listens. */
  readonly address: string;
  /** Mounted as /root for a login. */
  readonly home: string;
  /** A program that runs in place of each command, which is in SSH_ORIGINAL_COMMAND. */
  readonly shell: string;
}

export interface SshServers extends AsyncDisposable {
  /** Path of a program that runs ssh with that configuration. */
  readonly ssh: string;
}

const server = findSshServer();
const TRIPLET = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
const LIBRARIES = [`usr/lib/${TRIPLET}`, `lib/${TRIPLET}`];

/** Undefined where this machine can run them, else the reason for skipping a test. */
export function whyNoSshServer(): string | undefined {
  if (process.getuid?.() !== 0) return "sshd needs root";
  if (!existsSync("/usr/bin/ssh")) return "there is no ssh";
  return server === undefined ? "there is no sshd: npm run setup -- --for system" : undefined;
}

export async function startSshServers(machines: readonly SshMachine[]): Promise<SshServers> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder()).path;
  const at = (name: string) => path.join(folder, name);
  for (const key of ["host", "admin"])
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", at(key)]);
  // A login sees another folder at /root, where the cache may lie.
  if (server?.prefix !== undefined)
    cpSync(server.prefix, at("prefix"), { recursive: true, verbatimSymlinks: true });
  // The account that sshd gives up its rights for; a package would have made it.
  const passwd = readFileSync("/etc/passwd", "utf8");
  writeFileSync(at("passwd"), `${passwd}\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n`);
  const entries: string[] = [];
  const known: string[] = [];
  for (const machine of machines) {
    const port = await freePort(machine.address);
    const child = await startServer(machine, port, at);
    stack.defer(() => endServer(child));
    entries.push(`Host ${machine.name}\n  HostName ${machine.address}\n  Port ${port}`);
    known.push(`[${machine.address}]:${port} ${readFileSync(at("host.pub"), "utf8")}`);
  }
  const common = `Host *\n  User root\n  IdentityFile ${at("admin")}\n  UserKnownHostsFile ${at("known")}\n`;
  writeFileSync(at("config"), `${entries.join("\n")}\n${common}`);
  writeFileSync(at("known"), known.join(""));
  writeFileSync(at("ssh"), `#!/bin/sh\nexec /usr/bin/ssh -F ${at("config")} "$@"\n`, { mode: 0o755 });
  const kept = stack.move();
  return { ssh: at("ssh"), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function endServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const sessions = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  await exited;
  // A client that keeps its connection for later commands keeps the session alive.
  for (const pid of sessions.split(" ").filter(Boolean)) send(Number(pid), "SIGTERM");
}

/** Resolves when it listens. Its mounts are its own, and end with it. */
async function startServer(
  { name, address, home, shell }: SshMachine,
  port: number,
  at: (name: string) => string,
): Promise<ChildProcess> {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const config = at(`${name}.conf`);
  const lines = [
    ...[`Port ${port}`, `ListenAddress ${address}`, `HostKey ${at("host")}`, "PidFile none"],
    ...[`AuthorizedKeysFile ${at("admin.pub")}`, "StrictModes no", "PermitRootLogin yes", "UsePAM no"],
    `ForceCommand ${shell}`,
  ];
  writeFileSync(config, `${lines.join("\n")}\n`);
  const mounts = [
    `mount --bind ${at("passwd")} /etc/passwd`,
    "mount -t tmpfs -o mode=755 tmpfs /run",
    "mkdir /run/sshd",
    `mount --bind ${home} /root`,
    `exec ${server?.program ?? at("prefix/usr/sbin/sshd")} -D -e -f ${config}`,
  ];
  const child = spawn("unshare", ["--mount", "sh", "-c", mounts.join(" && ")], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env.PATH, LD_LIBRARY_PATH: LIBRARIES.map((name) => at(`prefix/${name}`)).join(":") },
  });
  const said: string[] = [];
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      if (line.includes("Server listening")) resolve();
    });
    child.once("exit", () => reject(new Error(`sshd: ${said.join("\n")}`)));
  });
  return child;
}
