/** doctor as users run it: on recorded Macs, on this machine, and with --fix. */
import { execFile } from "node:child_process";
import { createSocket } from "node:dgram";
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { lockStateDir } from "../agent/state-dir/lock.ts";
import { renderKubeconfig } from "../local/control-plane/state/kubeconfig.ts";
import { packageRoot } from "../local/package-root.ts";
import { allChecks } from "../src/doctor/table.ts";
import { startDoctorReplay } from "../test/bed/doctor-replay.ts";
import { M4_MAX } from "../test/bed/replay.ts";
import { type ProgramEnd, runVerb } from "../test/cli/program.ts";

const isRoot = process.geteuid?.() === 0;
const BAD_M5 = "mac17-2-m5-32gb-macos-26.1";

const schema = z.strictObject({
  host: z.string(),
  platform: z.enum(["darwin", "linux"]),
  tookMs: z.number(),
  summary: z.record(z.enum(["error", "warning", "unknown", "note", "ok", "notApplicable"]), z.number()),
  results: z.array(
    z.strictObject({
      code: z.string(),
      check: z.string(),
      status: z.enum(["error", "warning", "unknown", "note", "ok", "notApplicable"]),
      finding: z.string(),
      reason: z.string(),
      fix: z.strictObject({ summary: z.string(), command: z.string().optional() }).optional(),
      isFixable: z.boolean(),
    }),
  ),
  fixed: z.array(z.strictObject({ code: z.string(), command: z.string(), failed: z.string().optional() })),
  inventory: z.union([z.strictObject({ value: z.looseObject({}) }), z.strictObject({ unknown: z.string() })]),
});

type Report = z.output<typeof schema>;

interface Bed extends AsyncDisposable {
  readonly stateDir: string;
  readonly home: string;
  readonly doctor: (args?: readonly string[], env?: Readonly<Record<string, string>>) => Promise<ProgramEnd>;
  readonly report: (
    args?: readonly string[],
    env?: Readonly<Record<string, string>>,
  ) => Promise<Report & { readonly exitCode: number | null }>;
}

/** A home of its own; the state folder exists and is private. */
async function startBed(): Promise<Bed> {
  const home = await mkdtemp(path.join(tmpdir(), "mb-doctor-"));
  const stateDir = path.join(home, "state");
  await mkdir(stateDir, { mode: 0o700 });
  const doctor: Bed["doctor"] = (args = [], env = {}) =>
    runVerb(["doctor", "--timeout", "60s", "--state-dir", stateDir, "--host-name", "mini-1", ...args], {
      env: { HOME: home, ...env },
    });
  return {
    home,
    stateDir,
    doctor,
    report: async (args = [], env = {}) => {
      const end = await doctor(["-o", "json", ...args], env);
      return { ...schema.parse(JSON.parse(end.stdout)), exitCode: end.code };
    },
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}

const statusOf = ({ results }: Report, code: string) =>
  results.filter((result) => result.code === code).map(({ status }) => status);
const codesWith = ({ results }: Report, ...statuses: string[]) => [
  ...new Set(results.filter(({ status }) => statuses.includes(status)).map(({ code }) => code)),
];

const darwin = (mac: { readonly path: string }) =>
  [["--platform", "darwin"], { PATH: `${mac.path}:${process.env.PATH}` }] as const;

describe("a recorded Mac", () => {
  it("that is set up well has no finding but those of this test's surroundings", async () => {
    await using bed = await startBed();
    await using mac = await startDoctorReplay(M4_MAX);
    const report = await bed.report(...darwin(mac));
    const ofTheMac = allChecks
      .filter(({ platforms }) => platforms.length === 1 && platforms[0] === "darwin")
      .map(({ code }) => code);
    const wrong = report.results.filter(
      ({ code, status }) =>
        (ofTheMac as string[]).includes(code) && !["ok", "notApplicable"].includes(status),
    );
    // Reports of crashes are in a folder that only a Mac has.
    expect([...new Set(wrong.map(({ code }) => code))]).toEqual(["KernelPanicked", "JetsamKilled"]);
    expect(statusOf(report, "FirewallBlocksEngine")).toEqual(["ok"]);
    expect(statusOf(report, "ServiceFailing")).toEqual(["ok"]);
    expect(statusOf(report, "WifiInUse")).toEqual(["ok"]);
    expect(report.inventory).toMatchObject({ unknown: expect.stringContaining("systeminformation") });
  });

  it("that is set up badly has each of its faults found", async () => {
    await using bed = await startBed();
    await using mac = await startDoctorReplay(BAD_M5);
    const report = await bed.report(...darwin(mac));
    expect(codesWith(report, "error", "warning", "note")).toEqual(
      expect.arrayContaining([
        ...["UpdatesRestartHost", "ThermalThrottled", "SleepEnabled", "LidSleeps", "PowerNapOn"],
        ...["NoRestartAfterPowerLoss", "FileVaultOn", "OnBattery", "LowPowerMode", "ModelsBackedUp"],
        ...["FastLinkUnused", "WifiInUse", "PortRangeInUse", "OllamaAppRuns", "LmStudioRuns"],
        ...["EngineServiceRuns", "ForeignEngineRuns", "ServiceIsLoginAgent", "ServiceFailing"],
        ...["ServiceThrottled", "FileLimitLow", "AgentNotRunning", "StateDirTemporary"],
      ]),
    );
    expect(report.exitCode).toBe(1);
    const text = await bed.doctor(...darwin(mac));
    expect(text.stdout).toContain("Apple M5, Mac17,2, macOS 26.1");
    expect(text.stdout).toMatch(/^error {4}SleepEnabled: the machine sleeps after 1 min$/m);
    expect(text.stdout).toMatch(/^ +sudo pmset -a sleep 0 disablesleep 1$/m);
    expect(text.stderr).toBe("");
  });

  it("names each engine that its firewall blocks, by its real path", async () => {
    await using bed = await startBed();
    await using mac = await startDoctorReplay(BAD_M5);
    const [bin = ""] = mac.path.split(":");
    await writeFile(path.join(bin, "ollama"), "#!/bin/sh\necho 'ollama version is 0.9.0'\n", { mode: 0o755 });
    const report = await bed.report(...darwin(mac));
    const found = report.results.find(
      ({ code, finding }) => code === "FirewallBlocksEngine" && finding.startsWith("ollama"),
    );
    expect(found?.finding).toContain(path.join(bin, "ollama"));
    expect(found?.fix?.command).toContain(`--unblockapp ${path.join(bin, "ollama")}`);
  });

  it("with tools that hang, fail or talk nonsense passes nothing and ends in time", async () => {
    await using bed = await startBed();
    await using mac = await startDoctorReplay(M4_MAX);
    await mac.breakTool("pmset", "slow");
    await mac.breakTool("fdesetup", "garbage");
    await mac.breakTool("launchctl", "silent");
    await mac.breakTool("socketfilterfw", "missing");
    await mac.breakTool("networksetup", "denied");
    const [args, env] = darwin(mac);
    const report = await bed.report([...args, "--timeout", "4s"], env);
    expect(codesWith(report, "unknown")).toEqual(
      expect.arrayContaining([
        ...["SleepEnabled", "OnBattery", "ThermalThrottled", "FileVaultOn", "ServiceNotInstalled"],
        ...["EngineServiceRuns", "FirewallBlocksEngine", "WifiInUse"],
      ]),
    );
    expect(report.results.find(({ code }) => code === "SleepEnabled")?.finding).toMatch(
      /did not end within|no answer within/,
    );
  });

  it("excludes its models from backups with --fix, and prints the command", async () => {
    await using bed = await startBed();
    const added = path.join(bed.home, "added");
    await using mac = await startDoctorReplay(BAD_M5);
    const [bin = ""] = mac.path.split(":");
    await writeFile(
      path.join(bin, "tmutil"),
      `#!/bin/sh\n[ "$1" = addexclusion ] && { : > ${added}; exit 0; }\n[ -e ${added} ] && echo '[Excluded]' || echo '[Included]'\n`,
      { mode: 0o755 },
    );
    const [args, env] = darwin(mac);
    const report = await bed.report([...args, "--fix"], env);
    expect(report.fixed).toEqual([
      { code: "ModelsBackedUp", command: `tmutil addexclusion ${path.join(bed.stateDir, "models")}` },
    ]);
    expect(statusOf(report, "ModelsBackedUp")).toEqual(["ok"]);
  });
});

describe.skipIf(process.platform !== "linux")("this machine", () => {
  it("is read by its own means, with an inventory that names no serial number", async () => {
    await using bed = await startBed();
    const report = await bed.report();
    expect(report.platform).toBe("linux");
    expect(report.inventory).toMatchObject({ value: { osInfo: { arch: process.arch } } });
    expect(JSON.stringify(report.inventory)).not.toMatch(/serial|uuid|mac"/i);
    expect(report.summary.unknown).toBeLessThan(10);
    for (const code of ["OomKilled", "OnBattery", "FileLimitLow", "PortRangeInUse", "ForeignEngineRuns"])
      expect(statusOf(report, code)).not.toEqual(["unknown"]);
    for (const code of ["SleepEnabled", "FileVaultOn"])
      expect(statusOf(report, code)).toEqual(["notApplicable"]);
  });

  it("reports a program that has taken a port of the range, and the agent that runs", async () => {
    await using bed = await startBed();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const config = path.join(bed.home, "agent.yaml");
    await writeFile(config, `portRange: [${port}, ${port}]\n`, { mode: 0o600 });
    const lock = await lockStateDir(bed.stateDir, tmpdir());
    const report = await bed.report(["--config", config]);
    server.close();
    await lock.release();
    expect(statusOf(report, "PortRangeInUse")).toEqual(["warning"]);
    expect(statusOf(report, "AgentNotRunning")).toEqual(["ok"]);
    expect(statusOf(report, "ConfigWritable")).toEqual(["ok"]);
  });

  it("fixes permissions and leftovers with --fix, and says what it did", async () => {
    await using bed = await startBed();
    const { stateDir, home } = bed;
    const kubeconfig = path.join(home, "kubeconfig");
    await writeFile(kubeconfig, "{}");
    await chmod(kubeconfig, 0o644);
    await chmod(stateDir, 0o777);
    const [left, wanted] = ["left", "wanted"].map((uid) => path.join(stateDir, "engines", uid));
    for (const dir of [left, wanted]) await mkdir(dir ?? "", { recursive: true });
    await mkdir(path.join(stateDir, "desired"));
    await writeFile(path.join(stateDir, "desired", "wanted.json"), "{}");
    const before = await bed.report(["--kubeconfig", kubeconfig]);
    expect(statusOf(before, "CredentialReadable")).toEqual(["error"]);
    const { stdout } = await bed.doctor(["--kubeconfig", kubeconfig, "--fix"]);
    expect(stdout).toContain(`fixed: chmod 600 ${kubeconfig}`);
    expect(stdout).toContain(`fixed: chmod 755 ${stateDir}`);
    expect(stdout).toContain(`fixed: rm -r ${left}`);
    expect(stdout).not.toMatch(/error {4}(StateDirOpen|CredentialReadable)/);
    expect((await stat(kubeconfig)).mode & 0o777).toBe(0o600);
    expect((await stat(stateDir)).mode & 0o777).toBe(0o755);
    await expect(stat(left ?? "")).rejects.toMatchObject({ code: "ENOENT" });
    expect((await stat(wanted ?? "")).isDirectory()).toBe(true);
  });

  it.runIf(isRoot)("names what a DNS server that stays silent breaks, and ends all the same", async () => {
    await using bed = await startBed();
    await using silent = createSocket("udp4");
    await new Promise<void>((resolve) => silent.bind(53, "127.0.0.99", resolve));
    const resolv = path.join(bed.home, "resolv.conf");
    await writeFile(resolv, "nameserver 127.0.0.99\noptions timeout:30 attempts:5\n");
    const kubeconfig = path.join(bed.home, "kubeconfig");
    await writeFile(
      kubeconfig,
      renderKubeconfig({
        url: "https://api.farm.example:6443",
        certificateAuthority: undefined,
        token: "t",
        user: "mini-1",
      }),
      { mode: 0o600 },
    );
    const args = ["--kubeconfig", kubeconfig, "--state-dir", bed.stateDir, "--host-name", "mini-1"];
    const program = ["doctor", "-o", "json", "--timeout", "20s", ...args];
    // In a mount namespace of its own the machine has this DNS server.
    const { stdout } = await promisify(execFile)("unshare", [
      ...["-m", "sh", "-c", `mount --bind ${resolv} /etc/resolv.conf && exec "$@"`, "sh"],
      ...[process.execPath, path.join(packageRoot(), "cli", "metalbridge.mjs"), ...program],
    ]).catch((failed: { stdout: string }) => failed);
    const report = schema.parse(JSON.parse(stdout));
    expect(statusOf(report, "NameNotResolved")).toEqual(["error", "error"]);
    expect(statusOf(report, "ApiUnreachable")).toEqual(["error"]);
    expect(codesWith(report, "unknown")).not.toContain("LinkSlow");
  });

  it("leaves engines of a running agent alone", async () => {
    await using bed = await startBed();
    const dir = path.join(bed.stateDir, "engines", "left");
    await mkdir(dir, { recursive: true });
    const lock = await lockStateDir(bed.stateDir, tmpdir());
    const report = await bed.report(["--fix"]);
    await lock.release();
    expect(report.fixed).toEqual([]);
    expect((await stat(dir)).isDirectory()).toBe(true);
  });

  it("says that a wrong option is one, and reads no machine", async () => {
    await using bed = await startBed();
    expect(await bed.doctor(["--platform", "vms"])).toMatchObject({ code: 2, stdout: "" });
    expect((await bed.doctor(["--output", "xml"])).code).toBe(2);
  });
});
