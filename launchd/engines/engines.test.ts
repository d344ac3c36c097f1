/**
 * `metalbridge engine` on a machine, with the real llama-server in archives.
 * CPU: each install unpacks and checks an archive of the real llama-server.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  createReadStream,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { llamaServerPaths } from "../../cli/engine/programs.ts";
import {
  isRoot,
  type Machine,
  PATIENT,
  PREFIX,
  prepareReleases,
  startMachine,
} from "../../test/bed/launchd/machine.ts";
import { packEntries, packRealEngine, whyNoEngineArchive } from "../../test/fixtures/engine-archive.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";

const releases = await prepareReleases();
afterAll(() => releases[Symbol.asyncDispose]());
const release = releases.make("1.0.0");
const linuxRelease = releases.make("1.0.0", { platform: "linux" });
const ENGINES = `${PREFIX}/engines/llamacpp`;

interface Listed {
  readonly name: string;
  readonly version: string;
  readonly isCurrent: boolean;
  readonly program: string;
  readonly sha256: string;
  readonly changes: readonly string[];
}

function commandsOf(machine: Machine) {
  const engine = (...args: string[]) => machine.run(machine.installed, ["engine", ...args]);
  return {
    engine,
    list: async (): Promise<readonly Listed[]> => JSON.parse((await engine("list", "--output", "json")).out),
    /** Results of doctor by code. */
    doctor: async () => {
      const { out } = await machine.run(machine.installed, [
        "doctor",
        "--output",
        "json",
        "--timeout",
        "30s",
      ]);
      const { results } = JSON.parse(out) as { results: { code: string; status: string; finding: string }[] };
      return new Map(results.map(({ code, status, finding }) => [code, { status, finding }]));
    },
  };
}

test.skipIf(!isRoot || whyNoEngineArchive !== undefined)(
  "an engine from an archive is pinned by its hash, switched, checked and removed",
  async () => {
    await using scratch = await temporaryFolder();
    await using machine = await startMachine({ commands: { xattr: () => ({ code: 1 }) } });
    const { engine, list, doctor } = commandsOf(machine);
    const [one, two] = ["one.tar.gz", "two.tar.gz"].map((name) => path.join(scratch.path, name)) as [
      string,
      string,
    ];
    const sums = { one: packRealEngine(one), two: packRealEngine(two, "another build") };
    const from = (file: string, ...more: string[]) => engine("install", "llamacpp", "--from", file, ...more);

    expect((await machine.run(release, ["engine", "list"])).err).toMatch(/^InstallNotFound/);
    expect((await machine.run(release, ["install", ...PATIENT])).code).toBe(0);
    expect((await from(one)).err).toMatch(`EngineSumMissing: ${one} has the SHA-256 ${sums.one}`);
    expect((await from(one, "--sha256", sums.two)).err).toMatch(/^EngineSumMismatch/);
    expect(await list()).toEqual([]);

    const installed = await from(one, "--sha256", sums.one.toUpperCase());
    expect(installed).toMatchObject({ code: 0, err: "" });
    const [listed] = await list();
    expect(listed).toMatchObject({ isCurrent: true, sha256: sums.one, changes: [] });
    expect(listed?.name).toBe(`${listed?.version}-${sums.one.slice(0, 12)}`);
    expect(listed?.version).toMatch(/^b\d{4,}$/);
    const program = machine.at(`${ENGINES}/current/llama-server`);
    expect(realpathSync(program)).toBe(listed?.program);
    expect(statSync(program)).toMatchObject({ uid: 0, mode: 0o100755 });
    expect(installed.out).toContain(`socketfilterfw --unblockapp ${listed?.program}`);
    expect(machine.calls).toContainEqual(expect.stringMatching(/^xattr -dr com.apple.quarantine .*partial$/));

    // Again: nothing to do, and the archive is not read.
    const kept = path.join(scratch.path, "kept.tar.gz");
    writeFileSync(kept, readFileSync(one));
    rmSync(one);
    expect(await from(one, "--sha256", sums.one)).toMatchObject({
      code: 0,
      out: `llama-server ${listed?.name} is already in use\n`,
    });

    // The agent of this installation prefers it to those on PATH, and doctor finds nothing wrong.
    const paths = llamaServerPaths({ llamaServer: [] }, { prefix: machine.at(PREFIX), env: {} });
    expect(paths[0]).toBe(program);
    expect(llamaServerPaths({ llamaServer: ["/mine"] }, { prefix: machine.at(PREFIX) })).toEqual(["/mine"]);
    const healthy = await doctor();
    for (const code of ["EngineOfAnotherUser", "EngineFilesChanged", "RuntimeNotInstalled"])
      expect(healthy.get(code), code).toMatchObject({ status: "ok" });

    // Another version is used: a running engine keeps the files of its own, which cannot be removed.
    const running = spawn(listed?.program ?? "", ["--host", "127.0.0.1", "--port", "0"], { stdio: "pipe" });
    await once(running.stderr, "data");
    expect((await from(two, "--sha256", sums.two)).out).toContain("running engines keep their version");
    expect((await engine("remove", sums.one.slice(0, 12))).err).toMatch(/^EngineInUse: 1 processes run from/);
    running.kill("SIGKILL");
    await once(running, "exit");
    expect((await engine("use", listed?.version ?? "")).err).toMatch(
      /^EngineNotInstalled: several versions match/,
    );

    // Changed, added and writable files are reported, and their version cannot be used.
    const lib = path.join(path.dirname(listed?.program ?? ""), "../NOTE");
    appendFileSync(lib, "changed");
    writeFileSync(path.join(path.dirname(lib), "libggml-more.so"), "", { mode: 0o666 });
    expect((await list())[0]?.changes).toEqual([
      "build/NOTE has other bytes",
      "build/libggml-more.so was added",
    ]);
    expect((await engine("use", listed?.name ?? "")).err).toMatch(/^EngineFilesChanged/);
    expect((await from(kept, "--sha256", sums.one)).code).toBe(0);
    expect((await list()).map(({ isCurrent, changes }) => [isCurrent, changes])).toEqual([
      [false, []],
      [true, []],
    ]);
    appendFileSync(lib, "changed");
    expect((await doctor()).get("EngineFilesChanged")).toMatchObject({
      status: "error",
      finding: expect.stringContaining("build/NOTE has other bytes"),
    });

    // A version whose record is damaged is listed, cannot be used, and is installed again or removed.
    const record = machine.at(`${ENGINES}/${listed?.name}/engine.json`);
    writeFileSync(record, "{");
    expect((await list()).map(({ name, isCurrent }) => [name, isCurrent])).toContainEqual([
      listed?.name,
      true,
    ]);
    // For scripts it has every field, and no less than a change.
    const damage = expect.stringMatching(/^engine.json is damaged: /);
    expect((await list()).find(({ isCurrent }) => isCurrent)).toMatchObject({
      sha256: null,
      from: null,
      installedAt: null,
      damage,
      changes: [damage],
    });
    expect((await engine("list")).out).toMatch(
      new RegExp(`^${listed?.name} +in use, damaged +engine.json is damaged: .*$`, "m"),
    );
    expect((await engine("use", listed?.name ?? "")).err).toMatch(
      /^EngineFilesChanged: .*engine.json is damaged/,
    );
    expect((await doctor()).get("EngineFilesChanged")).toMatchObject({ status: "error" });
    expect((await from(kept, "--sha256", sums.one)).code).toBe(0);
    expect((await list()).find(({ isCurrent }) => isCurrent)).toMatchObject({
      name: listed?.name,
      changes: [],
    });
    rmSync(record);

    // Switch back, and remove the version that is no longer used.
    expect((await engine("use", sums.two.slice(0, 12))).code).toBe(0);
    expect((await engine("remove", listed?.name ?? "")).code).toBe(0);
    expect((await list()).map(({ sha256, isCurrent }) => [sha256, isCurrent])).toEqual([[sums.two, true]]);
    expect((await engine("remove", sums.two.slice(0, 12))).out).toContain(
      "the agent searches its PATH for llama-server",
    );
    expect(machine.files().filter((file) => file.includes("/engines/"))).toEqual([]);
    await machine.run(machine.installed, ["stop"]);
  },
  300_000,
);

test.skipIf(!isRoot)(
  "an archive without an engine for this machine is refused, and leaves no files",
  async () => {
    await using scratch = await temporaryFolder();
    await using machine = await startMachine({ platform: "linux" });
    const { engine, list } = commandsOf(machine);
    expect((await machine.run(linuxRelease, ["install", ...PATIENT])).err).toBe("");
    const archive = path.join(scratch.path, "a.tar.gz");
    const server = createServer((request, response) => {
      if (request.url === "/a.tar.gz") createReadStream(archive).pipe(response);
      else if (request.url === "/cut") response.write("begins", () => response.destroy());
      else response.writeHead(404).end();
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const refusal = async (from: string, sha256: string) =>
      (await engine("install", "llamacpp", "--from", from, "--sha256", sha256)).err;
    const packed = async (text: string | Buffer, mode = 0o755) => {
      const sum = await packEntries(archive, [{ name: "b/bin/llama-server", mode, text }]);
      return refusal(`${url}/a.tar.gz`, sum);
    };
    const arm = Buffer.alloc(64);
    arm.write("\x7fELF", "latin1");
    arm.writeUInt16LE(process.arch === "arm64" ? 62 : 183, 18);
    try {
      expect(await packed(arm)).toMatch(
        /^EngineForAnotherMachine: b\/bin\/llama-server in the archive is for linux-/,
      );
      const broken = await packed("#!/bin/sh\nexit 3\n");
      expect(broken).toMatch(/^RuntimeBroken: b\/bin\/llama-server of .*\/a.tar.gz --version ended with 3/);
      expect(broken).toMatch(/nothing was installed/);
      expect(broken).not.toMatch(/\.partial|manually/);
      // Root never runs the program: it runs as the agent's account.
      expect(await packed("#!/bin/sh\nid -u >&2\nexit 3\n")).toMatch(/--version ended with 3: 990/);
      expect(await packed("#!/bin/sh\n", 0o644)).toMatch(/^EngineArchiveInvalid: .* is not executable/);
      const other = await packEntries(archive, [{ name: "readme" }]);
      expect(await refusal(archive, other)).toMatch(
        /^EngineArchiveInvalid: the archive holds no llama-server/,
      );
      expect(await refusal(`${url}/none`, other)).toMatch(/^EngineArchiveInvalid: .* answers 404/);
      expect(await refusal("http://127.0.0.1:2/a.tar.gz", other)).toMatch(
        / cannot be fetched: .*ECONNREFUSED/,
      );
      expect(await refusal(path.join(scratch.path, "none"), other)).toMatch(/none cannot be read: ENOENT/);
      expect(await refusal(`${url}/cut`, other)).toMatch(/^EngineArchiveInvalid: .*\/cut was interrupted/);
      expect(await refusal(scratch.path, other)).toMatch(/^EngineArchiveInvalid: .* is not a regular file/);
      expect((await engine("use", "b1")).err).toMatch(
        /^EngineNotInstalled: b1 is not installed; installed: none/,
      );
    } finally {
      server.close();
    }
    expect(await list()).toEqual([]);
    expect(machine.files().filter((file) => file.includes("/engines/"))).toEqual([]);
    await machine.run(machine.installed, ["stop"]);
  },
  300_000,
);
