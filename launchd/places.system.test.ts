/** Accounts, permissions and folders: what install gives away, what it reads without root, and what uninstall leaves to others. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import {
  archiveOf,
  isRoot,
  LABEL,
  type Machine,
  PATIENT,
  PREFIX,
  prepareReleases,
  runProgram,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { unmountedVolume } from "./observe.ts";

const PATIENCE = { timeout: 60_000, interval: 100 };
const OTHER_UID = 65_534;

const releases = await prepareReleases();
const [release, next] = [releases.make("1.0.0"), releases.make("1.1.0")];
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot)(
  "a user without root sees a healthy installation as healthy, and what he may not read as unknown",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    const shown = await machine.run(machine.installed, ["service"], { uid: OTHER_UID });
    expect(shown.out).not.toContain("differs from what install writes");
    expect(shown.out).toMatch(/^engines +unknown/m);
  },
);

test.runIf(isRoot)(
  "a root shell that hides new files from others installs an agent that its account can read",
  async () => {
    await using machine = await startMachine();
    const program = path.join(release, "bin", "metalbridge");
    const ran = await runProgram(
      "/bin/sh",
      [
        "-c",
        'umask 077; exec "$0" "$@"',
        program,
        "install",
        "--root",
        machine.root,
        "--platform",
        "darwin",
        ...PATIENT,
      ],
      { env: { PATH: `${machine.bin}:/usr/bin:/bin`, HOME: "/home/me" } },
    );
    expect(ran).toMatchObject({ code: 0, err: "" });
    for (const folder of ["usr/local", "usr/local/bin", "usr/local/var", `${PREFIX}/versions/1.0.0/cli`])
      expect({ folder, mode: statSync(machine.at(folder)).mode & 0o777 }).toEqual({ folder, mode: 0o755 });
  },
);

test.runIf(isRoot)("a state folder with files of others is refused", async () => {
  await using machine = await startMachine();
  const shared = machine.at("srv");
  mkdirSync(shared);
  chmodSync(shared, 0o755);
  writeFileSync(path.join(shared, "accounts.db"), "");
  const options = ["--state-dir", shared, ...PATIENT];
  expect(await machine.run(release, ["install", ...options])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^ServiceForeign: .*accounts\.db/),
  });
  expect(statSync(shared)).toMatchObject({ uid: 0, mode: 0o40755 });

  // Files that an earlier agent left, or a host that has joined already.
  for (const name of ["models", "kubeconfig", "instance-id", "host.json"]) {
    const own = machine.at("srv/metalbridge");
    mkdirSync(own, { recursive: true });
    writeFileSync(path.join(own, name), "");
    const dry = await machine.run(release, ["install", "--state-dir", own, "--dry-run"]);
    expect(dry).toMatchObject({ code: 0, err: "" });
  }
});

test.runIf(isRoot)(
  "a state folder below a folder of another account is refused, with the command that helps",
  async () => {
    await using machine = await startMachine();
    const volume = machine.at("Volumes/models");
    mkdirSync(volume, { recursive: true });
    chownSync(volume, OTHER_UID, OTHER_UID);
    const install = () =>
      machine.run(release, ["install", "--state-dir", path.join(volume, "metalbridge"), "--dry-run"]);
    expect(await install()).toMatchObject({
      code: 1,
      err: `StateDirUnusable: ${volume}, above ${volume}/metalbridge, belongs to the account with uid ${OTHER_UID}\n  give it to root, or choose another folder with --state-dir\n    sudo chown root:wheel '${volume}'\n`,
    });
    chownSync(volume, 0, 0);
    chmodSync(volume, 0o777);
    expect((await install()).err).toMatch(
      /^InstallFailed: cannot use .*: every account may change .*: chmod o-w/,
    );
    chmodSync(volume, 0o755);
    expect(await install()).toMatchObject({ code: 0, err: "" });
  },
);

test.runIf(isRoot)("a folder below /Volumes is a volume while one is mounted on it", async () => {
  await using folder = await temporaryFolder();
  const volume = path.join(folder.path, "models");
  const ask = (at: string) => unmountedVolume(at, folder.path);
  expect(await ask(path.join(volume, "metalbridge"))).toBe(volume);
  mkdirSync(volume);
  expect(await ask(path.join(volume, "metalbridge"))).toBe(volume);
  execFileSync("mount", ["-t", "tmpfs", "tmpfs", volume]);
  try {
    expect(await ask(path.join(volume, "metalbridge"))).toBeUndefined();
  } finally {
    execFileSync("umount", ["-l", volume]);
  }
  expect(await ask("/usr/local/var/metalbridge")).toBeUndefined();
});

test.runIf(isRoot)(
  "a LaunchAgent of root is refused: it would leave root's files in the home of whoever ran sudo",
  async () => {
    await using machine = await startMachine();
    expect(await machine.run(release, ["install", "--scope", "user", ...PATIENT])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^RootRefused/),
    });
    expect(machine.files()).toEqual([]);
  },
);

test.runIf(isRoot)("an agent can replace the credential that install gave it", async () => {
  await using machine = await startMachine();
  const given = machine.at("given");
  writeFileSync(given, "users: []\n", { mode: 0o600 });
  await machine.run(release, ["install", "--kubeconfig", given, "--timeout-seconds", "1"]);
  const file = JSON.parse(machine.read(`${PREFIX}/install.json`) ?? "{}").layout.kubeconfig;
  const agent = machine.directory.idsOf("_metalbridge");
  expect(existsSync(file)).toBe(true);
  expect(statSync(file)).toMatchObject({ ...agent, mode: 0o100600 });
  // Replaced by rename, which needs the folder.
  expect(statSync(path.dirname(file)).uid).toBe(agent?.uid);
});

/** What a compromised engine may leave in the state folder: the account owns it. */
const asAccount = (machine: Machine, script: string) => {
  const { uid, gid } = machine.directory.idsOf("_metalbridge") ?? { uid: -1, gid: -1 };
  execFileSync("/bin/sh", ["-c", script], { cwd: machine.at(STATE), uid, gid });
};

test.runIf(isRoot)(
  "a second name of a root file in the state folder stays root's through upgrade, install and uninstall",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    const program = machine.at(`${PREFIX}/versions/1.0.0/cli/metalbridge.mjs`);
    const file = machine.at(`${STATE}/kubeconfig`);
    await machine.run(release, ["stop"]);
    // macOS lets any account make one, Linux only where fs.protected_hardlinks is 0.
    linkSync(program, file);
    const before = statSync(program);
    // The new version is not ready for the reason that the old one has: it counts as served.
    await machine.run(release, ["start", ...PATIENT]);
    await vi.waitFor(async () => expect((await machine.service()).agent.troubles).not.toEqual([]), PATIENCE);
    expect(await machine.run(next, ["upgrade", ...PATIENT])).toMatchObject({ code: 0, err: "" });
    expect(statSync(program)).toMatchObject({ uid: 0, gid: 0, mode: before.mode });
    const given = machine.at("given");
    writeFileSync(given, "users: []\n", { mode: 0o600 });
    await machine.run(next, ["install", "--kubeconfig", given, "--timeout-seconds", "1"]);
    expect(statSync(program)).toMatchObject({ uid: 0, gid: 0, mode: before.mode, size: before.size });
    expect(readFileSync(file, "utf8")).toBe("users: []\n");
    expect(statSync(file)).toMatchObject({ ...machine.directory.idsOf("_metalbridge"), nlink: 1 });
  },
);

test.runIf(isRoot)("uninstall leaves everything where it cannot read whether engines run", async () => {
  await using machine = await startMachine();
  await machine.run(release, ["install", ...PATIENT]);
  asAccount(machine, "mkdir -p engines/5e1f; echo '7 x' > engines/5e1f/pid; chmod 0 engines/5e1f/pid");
  const refused = {
    code: 1,
    err: expect.stringMatching(/^EnginesRunning: cannot determine .*could not be read/),
  };
  expect(await machine.run(machine.installed, ["uninstall"])).toMatchObject(refused);
  asAccount(machine, "chmod 600 engines/5e1f/pid; chmod 0 engines");
  expect(await machine.run(machine.installed, ["uninstall"])).toMatchObject(refused);
  expect(await machine.run(machine.installed, ["uninstall", "--stop-engines"])).toMatchObject(refused);
  expect([machine.launchd.labels(), existsSync(machine.at(`${STATE}/engines`))]).toEqual([[LABEL], true]);
  const dry = await machine.run(machine.installed, ["uninstall", "--dry-run"]);
  expect(dry.out).toContain("would drain and stop the engines\n");
});

test.runIf(isRoot)(
  "links and FIFOs of the agent's account lead root nowhere and do not hold it up",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    const secret = machine.at("secret");
    writeFileSync(secret, "the-secret-of-root\n", { mode: 0o600 });
    await machine.run(machine.installed, ["stop"]);
    asAccount(machine, "mkdir -p engines/5e1f; mkfifo engines/5e1f/pid engines/5e1f/engine.json");
    asAccount(machine, `rm -f logs/agent.log; ln -s ${secret} logs/agent.log`);
    asAccount(
      machine,
      `mkdir -p engines/gone models; ln -s ${machine.root} engines/gone/root; ln -s ${secret} models/secret`,
    );
    // The log is shown when the agent does not serve.
    const bad = releases.make("2.0.0", { program: "process.exit(3);" });
    const archive = archiveOf(bad, machine.at("bad.tar.gz"));
    const ran = await machine.run(next, ["upgrade", "--archive", archive, "--timeout-seconds", "5"]);
    expect(ran.code).toBe(1);
    expect(ran.out + ran.err).not.toContain("the-secret-of-root");
    expect(await machine.run(next, ["uninstall", "--purge"])).toMatchObject({ code: 0, err: "" });
    expect(existsSync(machine.at(STATE))).toBe(false);
    expect(readFileSync(secret, "utf8")).toBe("the-secret-of-root\n");
  },
);

test.runIf(isRoot)("a damaged record of the installation is written again by install", async () => {
  await using machine = await startMachine();
  await machine.run(release, ["install", ...PATIENT]);
  writeFileSync(machine.at(`${PREFIX}/install.json`), "{");
  expect((await machine.run(release, ["restart"])).err).toMatch(/^InstallUnreadable/);
  expect(await machine.run(release, ["install", ...PATIENT])).toMatchObject({ code: 0, err: "" });
  expect((await machine.service()).differing).toEqual([]);
  // As a newer version leaves it that was rolled back.
  const record = JSON.parse(machine.read(`${PREFIX}/install.json`) ?? "{}");
  writeFileSync(machine.at(`${PREFIX}/install.json`), JSON.stringify({ ...record, channel: "stable" }));
  expect((await machine.service()).current).toBe("1.0.0");
});

test.runIf(isRoot)(
  "doctor and join act for the installed agent with the rights of its account, and ask others for sudo",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    const llamaServer = machine.at("llama-server");
    writeFileSync(llamaServer, "#!/bin/sh\n", { mode: 0o755 });
    const cached = ".cache/metalbridge/llama-server/1/bin Library/Caches/metalbridge/llama-server/1/bin";
    const planted = '#!/bin/sh\\ntouch "$HOME/has-run" 2>/dev/null\\n';
    asAccount(
      machine,
      `mkdir -p ${cached}; for one in ${cached}; do printf '${planted}' > $one/llama-server; chmod 755 $one/llama-server; done`,
    );
    const ask = (uid: number) =>
      machine.run(machine.installed, ["doctor", "--output", "json", "--timeout", "30s"], {
        uid,
        env: { METALBRIDGE_LLAMA_SERVER: llamaServer },
      });
    const { out } = await ask(0);
    // The shell's engine is not the agent's.
    expect(out).not.toContain(llamaServer);
    // Nor is one that the account has put below its own folder: it would run in root's session.
    expect(out).not.toContain("llama-server/1/bin");
    expect(existsSync(machine.at(`${STATE}/has-run`))).toBe(false);
    const { results } = JSON.parse(out);
    const found = (code: string) => results.find((result: { code: string }) => result.code === code);
    expect(found("AgentNotRunning")).toMatchObject({ status: "ok" });
    expect(found("FilesOfAnotherUser")).toMatchObject({ status: "ok" });
    expect(found("ConfigWritable")).toMatchObject({ status: "ok" });
    expect((await ask(OTHER_UID)).err).toMatch(/^RootRequired: the agent runs as _metalbridge[\s\S]*sudo/);
    const join = ["join", "--server", "https://127.0.0.1:1", "--token", "x"];
    expect((await machine.run(machine.installed, join, { uid: OTHER_UID })).err).toMatch(/^RootRequired/);
    expect((await machine.run(machine.installed, join)).err).toMatch(/^JoinTokenInvalid/);
  },
);

test.runIf(isRoot)(
  "root's logs and models are the installed agent's, read with the rights of its account, which cannot debug them",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    await machine.run(machine.installed, ["stop"]);
    writeFileSync(machine.at("secret"), "the-secret-of-root\n", { mode: 0o600 });
    const desired = {
      metadata: { name: "chat-0-abc", namespace: "team" },
      spec: { template: { serviceName: "chat" } },
    };
    asAccount(
      machine,
      `mkdir -p desired engines/u1 engines/u2; echo '${JSON.stringify(desired)}' > desired/u1.json`,
    );
    asAccount(machine, "rm -f kubeconfig; mkfifo kubeconfig desired/u2.json engines/u2/engine.json");
    const log = machine.at(`${STATE}/engines/u1/log`);
    const args = ["--root", machine.root];
    asAccount(machine, `ln -s ${machine.at("secret")} engines/u1/log`);
    const led = await machine.program(machine.installed, ["logs", "chat", ...args]);
    expect(led).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^LogUnreadable/) });
    asAccount(machine, "rm engines/u1/log; mkfifo engines/u1/log.1; echo first > engines/u1/log");
    expect((await machine.program(machine.installed, ["models", "list", ...args])).err).toBe(
      `no agent is running on ${machine.at(STATE)}: reading its store; the models in use are unknown\n`,
    );

    const program = path.join(machine.installed, "bin", "metalbridge");
    const env = { PATH: "/usr/bin:/bin", HOME: "/home/me" };
    const logs = spawn(program, ["logs", "chat", "-f", "--all", ...args], { env });
    const said = { out: "", err: "" };
    logs.stdout.setEncoding("utf8").on("data", (text: string) => (said.out += text));
    logs.stderr.setEncoding("utf8").on("data", (text: string) => (said.err += text));
    const shows = (text: string) => vi.waitFor(() => expect(said.out).toContain(text), { timeout: 60_000 });
    const ended = once(logs, "close");
    try {
      await shows("first\n");
      asAccount(machine, `kill -USR1 ${logs.pid}`);
      appendFileSync(log, "second\n");
      await shows("second\n");
      logs.kill("SIGINT");
      expect(await ended).toEqual([130, null]);
      expect(said).toEqual({ out: "first\nsecond\n", err: "" });
    } finally {
      logs.kill("SIGKILL");
    }
  },
);

test.runIf(isRoot)(
  "a configuration with a mistake is refused, and the agent keeps the one that it has",
  async () => {
    await using machine = await startMachine();
    await machine.run(release, ["install", ...PATIENT]);
    const pid = machine.launchd.pidOf(LABEL);
    const file = machine.at("typo.yaml");
    writeFileSync(file, "hostname: mini-1\n");
    expect(await machine.run(release, ["install", "--config", file, ...PATIENT])).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringMatching(/^AgentConfigInvalid: .*typo\.yaml: hostname: unknown key/),
    });
    expect(machine.read("usr/local/etc/metalbridge/agent.yaml")).not.toContain("hostname");
    expect(machine.launchd.pidOf(LABEL)).toBe(pid);
  },
);
