/**
 * What a program tries that runs as the agent's account, as an engine does: to become root, directly and through what root
 * does later in the state folder. With the rights of its own host it may do what attempts.cluster.test.ts shows.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import {
  isRoot,
  type Machine,
  PATIENT,
  PLIST,
  PREFIX,
  prepareReleases,
  type Releases,
  STATE,
  startMachine,
} from "../bed/launchd/machine.ts";

const SECRET = "the-secret-of-root";
const OTHER_HOST = { uid: 65_533, gid: 65_533 };

/** Of a cluster that does not answer: the agent keeps trying, and a new credential with the same trouble is no fault of its own. */
const credential = (token: string) =>
  stringify({
    clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
    users: [{ name: "u", user: { token } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });

describe.runIf(isRoot)("the account of the engines", () => {
  let releases: Releases;
  let machine: Machine;
  /** What is not the account's: names, owners, rights and texts. */
  let before: Record<string, string>;

  beforeAll(async () => {
    releases = await prepareReleases();
    machine = await startMachine();
    mkdirSync(machine.at("root"));
    const given = machine.at("root/given");
    writeFileSync(given, credential("first"), { mode: 0o600 });
    const args = ["install", "--kubeconfig", given, ...PATIENT];
    expect(await machine.run(releases.make("1.0.0"), args)).toMatchObject({ code: 0 });
    execFileSync("rm", [given]);
    writeFileSync(machine.at("root/secret"), SECRET, { mode: 0o600 });
    const other = machine.at("other-host");
    mkdirSync(other, { mode: 0o700 });
    writeFileSync(path.join(other, "kubeconfig"), SECRET, { mode: 0o600 });
    for (const at of [other, path.join(other, "kubeconfig")]) chownSync(at, OTHER_HOST.uid, OTHER_HOST.gid);
    chmodSync(machine.at("root"), 0o755);
    before = outside();
  }, 300_000);
  afterAll(async () => {
    await machine?.[Symbol.asyncDispose]();
    await releases?.[Symbol.asyncDispose]();
  });

  function outside(): Record<string, string> {
    const found: Record<string, string> = {};
    for (const entry of readdirSync(machine.root, { recursive: true, encoding: "utf8" })) {
      if (entry.startsWith(`${STATE}/`) || entry.startsWith("Library/Logs")) continue;
      const { uid, gid, mode, size, mtimeMs } = lstatSync(machine.at(entry));
      // A folder's own time changes with what is tried in it; its names are compared.
      const isFolder = (mode & constants.S_IFMT) === constants.S_IFDIR;
      found[entry] = [uid, gid, mode.toString(8), isFolder ? "" : `${size} ${mtimeMs}`].join(" ");
    }
    return found;
  }

  /** The output, or undefined where the script failed. */
  function asAccount(script: string): string | undefined {
    const ids = machine.directory.idsOf("_metalbridge") ?? { uid: -1, gid: -1 };
    const env = {
      PATH: "/usr/bin:/bin",
      ROOT: machine.root,
      PREFIX: machine.at(PREFIX),
      STATE: machine.at(STATE),
    };
    try {
      const stdio: "pipe"[] = ["pipe", "pipe", "pipe"];
      return execFileSync("/bin/sh", ["-ec", script], {
        ...ids,
        env,
        stdio,
        cwd: machine.at(STATE),
        encoding: "utf8",
      });
    } catch {
      return undefined;
    }
  }

  test("it can use its own folder and read its own configuration", () => {
    expect(asAccount("echo own > x; cat x; rm x")).toBe("own\n");
  });

  test.each([
    ["changes the program of the release", 'echo x >> "$PREFIX/current/cli/metalbridge.mjs"'],
    ["removes it", 'rm "$PREFIX/current/cli/metalbridge.mjs"'],
    ["puts another version in place", 'mkdir "$PREFIX/versions/9.0.0"'],
    ["moves the installed version away", 'mv "$PREFIX/versions/1.0.0" "$PREFIX/versions/0.0.0"'],
    ["leads current elsewhere", 'ln -sfn "$STATE" "$PREFIX/current"'],
    ["changes the record of the installation", 'echo "{}" > "$PREFIX/install.json"'],
    ["changes the plist", `echo x >> "$ROOT/${PLIST}"`],
    ["removes the plist", `rm "$ROOT/${PLIST}"`],
    ["writes a plist of its own", `echo x > "$ROOT/${path.dirname(PLIST)}/own.plist"`],
    [
      "changes the agent's configuration",
      'echo "generic: {}" >> "$ROOT/usr/local/etc/metalbridge/agent.yaml"',
    ],
    ["replaces the agent's configuration", 'mv x "$ROOT/usr/local/etc/metalbridge/agent.yaml"'],
    ["replaces the command of the terminal", 'ln -sfn "$STATE/x" "$ROOT/usr/local/bin/metalbridge"'],
    ["replaces its state folder", 'mv "$STATE" "$ROOT/usr/local/var/elsewhere"'],
    ["puts a folder beside its state folder", 'mkdir "$ROOT/usr/local/var/own"'],
    ["gives a program of its own to root", "cp /bin/sh x; chown 0 x"],
    ["gives itself root's group", "cp /bin/sh x; chgrp 0 x"],
    ["reads what only root reads", 'cat "$ROOT/root/secret"'],
    ["reads the credential of another host's account", 'cat "$ROOT/other-host/kubeconfig"'],
    ["lists the folder of another host's account", 'ls "$ROOT/other-host"'],
  ])("who %s is denied by the rights of the files", (_, script) => {
    writeFileSync(machine.at(`${STATE}/x`), "x");
    chmodSync(machine.at(`${STATE}/x`), 0o666);
    expect(asAccount(script)).toBeUndefined();
    asAccount("rm -f x");
    expect(outside()).toEqual(before);
  });

  test.each([
    ["a link in place of the credential", 'rm -f kubeconfig; ln -s "$ROOT/root/secret" kubeconfig', 1],
    [
      "a link in place of the next credential",
      'rm -f kubeconfig*; ln -s "$ROOT/root/secret" kubeconfig.metalbridge-new',
      0,
    ],
    ["a folder in place of the next credential", "rm -rf kubeconfig*; mkdir kubeconfig.metalbridge-new", 1],
    ["links in place of the logs", 'rm -rf logs; ln -s "$ROOT/root" logs', 1],
    ["a link in place of the engines", 'rm -rf engines; ln -s "$ROOT/root" engines', 0],
    ["a link in place of the models", 'rm -rf models; ln -s "$ROOT/root" models', 1],
  ])("what root installs over %s changes and shows nothing outside", async (name, script, code) => {
    expect(asAccount(script)).toBeDefined();
    const given = machine.at("root/given");
    writeFileSync(given, credential(name), { mode: 0o600 });
    const args = ["install", "--kubeconfig", given, "--timeout-seconds", code === 0 ? "90" : "1"];
    const ran = await machine.run(machine.installed, args);
    expect(ran).toMatchObject({ code });
    expect(ran.out + ran.err).not.toContain(SECRET);
    execFileSync("rm", [given]);
    expect(readFileSync(machine.at("root/secret"), "utf8")).toBe(SECRET);
    expect(lstatSync(machine.at("root/secret"))).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    expect(readdirSync(machine.at("root"))).toEqual(["secret"]);
    expect(lstatSync(machine.at("root"))).toMatchObject({ uid: 0, mode: 0o40755 });
    if (code === 0) expect(asAccount("cat kubeconfig; rm kubeconfig")).toBe(credential(name));
    asAccount("rm -rf kubeconfig* logs engines models");
  });

  test("root's removal follows no link of the account", async () => {
    asAccount('ln -s "$ROOT/root" engines; ln -s "$ROOT/root" models; ln -s "$ROOT/root/secret" kubeconfig');
    await machine.run(machine.installed, ["uninstall", "--purge"]);
    expect(readFileSync(machine.at("root/secret"), "utf8")).toBe(SECRET);
    expect(lstatSync(machine.at("root/secret"))).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
  });

  test("what it leads elsewhere while root waits for the agent's end is removed with its rights only", async () => {
    const alice = { uid: 65_532, gid: 65_532 };
    await using home = await startMachine({
      commands: {
        launchctl: (call) => {
          // The names were listed before: root removes them next.
          if (call.args[0] === "bootout")
            execFileSync("/bin/sh", ["-ec", 'mv "$STATE" "$STATE.own"; ln -s "$ROOT/root" "$STATE"'], {
              ...alice,
              env: { PATH: "/usr/bin:/bin", ROOT: home.root, STATE: state },
            });
          return home.launchd.launchctl(call);
        },
      },
    });
    const state = home.at("Users/alice/Library/metalbridge");
    home.directory.add("alice", alice.uid);
    mkdirSync(path.dirname(state), { recursive: true });
    for (const at of ["Users/alice", "Users/alice/Library"]) chownSync(home.at(at), alice.uid, alice.gid);
    const placed = ["--user", "alice", "--state-dir", state];
    expect(await home.run(releases.make("1.0.0"), ["install", ...placed, ...PATIENT])).toMatchObject({
      code: 0,
    });
    mkdirSync(home.at("root/logs"), { recursive: true });
    for (const name of ["kubeconfig", "logs/secret"]) writeFileSync(home.at(`root/${name}`), SECRET);
    writeFileSync(path.join(state, "kubeconfig"), "");
    const ran = await home.run(home.installed, ["uninstall"]);
    const left = readdirSync(home.at("root"), { recursive: true, encoding: "utf8" });
    expect(left.sort()).toEqual(["kubeconfig", "logs", "logs/secret"]);
    expect(ran).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^InstallFailed: cannot remove .*EACCES/),
    });
  });
});
