/** What comes of a session: the script that ssh passes on really runs, by a program that takes ssh's arguments. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { archiveOf, isRoot, sumOf } from "../../test/bed/launchd/machine.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { upgradeBySsh } from "./transport.ts";

const PATIENTLY = { timeout: 60_000, interval: 20 };

/** Runs the command here, with a folder of the test as root's. `metalbridge` is the release's program. */
async function openHost(metalbridge: string) {
  const folder = await temporaryFolder();
  const at = (...names: readonly string[]) => path.join(folder.path, ...names);
  const executable = (file: string, text: string) => {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, `#!/bin/sh\n${text}\n`);
    chmodSync(file, 0o755);
    return file;
  };
  executable(at("release", "bin", "metalbridge"), metalbridge);
  mkdirSync(at("home"));
  executable(at("bin", "sudo"), 'shift\nexec "$@"');
  const inside = `echo $$ > ${at("pid")}; mount --bind ${at("home")} /root && exec sh -c "$command"`;
  const host = `unshare --mount sh -c '${inside}'`;
  const environment = ["for command; do :; done", "export command", `export PATH=${at("bin")}:$PATH`];
  const program = executable(
    at("ssh"),
    [`printf '%s\\n' "$@" > ${at("args")}`, ...environment, `exec ${host}`].join("\n"),
  );
  // As ssh and sshd: when this one is killed, the host's program loses its streams and continues in its own session.
  const relayed = [`cat <&3 | setsid ${host} | cat &`, "wait"];
  executable(at("relay"), ["exec 3<&0", 'trap "kill -KILL 0" TERM', ...environment, ...relayed].join("\n"));
  const file = archiveOf(at("release"), at("release.tar.gz"));
  const archive = { archive: file, sha256: sumOf(file), version: "1.1.0", platform: "linux-x64" };
  return {
    at,
    executable,
    archive,
    /** What the host has of releases that were copied to it. */
    leftovers: () => readdirSync(at("home")).filter((name) => name.startsWith(".metalbridge-upgrade.")),
    upgrade: (change: Partial<Parameters<typeof upgradeBySsh>[1]> = {}, ssh = program) =>
      upgradeBySsh(
        { program: ssh, user: "admin", options: ["Port=22"] },
        {
          host: "mac-1",
          archive,
          args: ["--timeout-seconds", "60"],
          timeoutMs: 60_000,
          signal: new AbortController().signal,
          ...change,
        },
      ),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

test.runIf(isRoot)("the release is checked, unpacked, run as root, and removed", async () => {
  await using host = await openHost(
    'echo "$0 $*" > "$HOME/ran"; ls -ld "$(dirname "$0")/../.." | cut -c 1-10 >> "$HOME/ran"',
  );
  vi.stubEnv("HOME", host.at());
  expect(await host.upgrade({ address: "192.168.1.21" })).toEqual({ at: "upgraded" });
  const [ran, mode] = readFileSync(host.at("ran"), "utf8").split("\n");
  expect(ran).toMatch(
    /^\/root\/\.metalbridge-upgrade\.\w+\/release\/bin\/metalbridge upgrade --timeout-seconds 60$/,
  );
  expect(mode).toBe("drwx------");
  expect(host.leftovers()).toEqual([]);
  expect(readFileSync(host.at("args"), "utf8").split("\n").slice(0, 16)).toEqual([
    ...["-o", "Port=22", "-o", "HostKeyAlias=mac-1", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"],
    ...["-o", "ServerAliveInterval=15", "-o", "ForwardAgent=no", "-l", "admin", "-T", "--"],
  ]);
  vi.unstubAllEnvs();
});

test.runIf(isRoot)(
  "a failure has the step, the code that the host gave, and the end of its standard error",
  async () => {
    await using host = await openHost("echo 'UpgradeRolledBack: version 1.1.0 does not serve' >&2; exit 1");
    expect(await host.upgrade()).toEqual({
      at: "failed",
      step: "upgrade",
      code: "UpgradeRolledBack",
      message: "version 1.1.0 does not serve",
      tail: "UpgradeRolledBack: version 1.1.0 does not serve",
    });
    const archive = { ...host.archive, sha256: "0".repeat(64) };
    expect(await host.upgrade({ archive })).toMatchObject({ step: "copy", code: "ReleaseSumMismatch" });
    writeFileSync(host.at("none.tar.gz"), "none");
    const broken = {
      ...host.archive,
      archive: host.at("none.tar.gz"),
      sha256: sumOf(host.at("none.tar.gz")),
    };
    expect(await host.upgrade({ archive: broken })).toMatchObject({ step: "unpack", code: "InstallFailed" });
    host.executable(host.at("bin", "sudo"), "echo 'sudo: a password is required' >&2; exit 1");
    expect(await host.upgrade()).toMatchObject({ step: "connect", code: "SudoRefused" });
    host.executable(host.at("ssh"), "echo 'Host key verification failed.' >&2; exit 255");
    expect(await host.upgrade()).toMatchObject({
      step: "connect",
      code: "SshFailed",
      message: "Host key verification failed.",
    });
  },
);

/** Ends ssh, and sends the host's program what a closed terminal would. */
function loseSession(host: { readonly at: (name: string) => string }, stop: AbortController): void {
  process.kill(-Number(readFileSync(host.at("pid"), "utf8")), "SIGHUP");
  stop.abort();
}

test.runIf(isRoot)("an upgrade that has begun ends on the host when its session is lost", async () => {
  await using host = await openHost(
    'mkfifo "$HOME/go"; cat "$HOME/go" > /dev/null; echo said; echo done > "$HOME/done"',
  );
  vi.stubEnv("HOME", host.at());
  const stop = new AbortController();
  const ended = host.upgrade({ signal: stop.signal }, host.at("relay"));
  await vi.waitFor(() => expect(existsSync(host.at("go"))).toBe(true), PATIENTLY);
  expect(host.leftovers()).toHaveLength(1);
  loseSession(host, stop);
  writeFileSync(host.at("go"), "");
  expect(await ended).toEqual({ at: "abandoned", step: "upgrade" });
  await vi.waitFor(() => expect(existsSync(host.at("done"))).toBe(true), PATIENTLY);
  await vi.waitFor(() => expect(host.leftovers()).toEqual([]), PATIENTLY);
  vi.unstubAllEnvs();
});

test.runIf(isRoot)("a copy that is cut off by a lost session is removed from the host", async () => {
  await using host = await openHost("exit 1");
  const archive = { ...host.archive, archive: host.at("slow.tar.gz") };
  execFileSync("mkfifo", [archive.archive]);
  const stop = new AbortController();
  const ended = host.upgrade({ archive, signal: stop.signal }, host.at("relay"));
  const slow = createWriteStream(archive.archive);
  slow.write("part");
  await vi.waitFor(() => expect(host.leftovers()).toHaveLength(1), PATIENTLY);
  loseSession(host, stop);
  slow.end();
  expect(await ended).toEqual({ at: "abandoned", step: "copy" });
  await vi.waitFor(() => expect(host.leftovers()).toEqual([]), PATIENTLY);
});

test("a session that never ends is ended at its limit, with the host and the step that it had reached", async () => {
  await using folder = await temporaryFolder();
  const program = path.join(folder.path, "ssh");
  // Not even by the signal that ends ssh; its child has the streams too.
  writeFileSync(program, '#!/bin/sh\ntrap "" TERM\necho @copy\necho @unpack\necho @upgrade\nsleep 1000\n', {
    mode: 0o755,
  });
  const file = path.join(folder.path, "release.tar.gz");
  writeFileSync(file, Buffer.alloc(1 << 20));
  const session = {
    host: "mac-1",
    args: [],
    timeoutMs: 100,
    signal: new AbortController().signal,
    archive: { archive: file, sha256: "0".repeat(64), version: "1.1.0", platform: "linux-x64" },
  };
  const begun = Date.now();
  const end = await upgradeBySsh({ program, options: [] }, session);
  // With the time for 1 MiB.
  expect(Date.now() - begun).toBeGreaterThan(1_000);
  expect(end).toEqual({
    at: "failed",
    step: "upgrade",
    code: "SshFailed",
    tail: "",
    message: expect.stringMatching(
      /^the ssh session to mac-1 did not end within \d+s, at the step upgrade; .*continues/,
    ),
  });
});
