/** A machine to install on: a root folder, replayed commands that really run the agent, and releases made from this checkout. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { build } from "esbuild";
import { packageRoot } from "../../../local/package-root.ts";
import { bundleInto, REQUIRE } from "../../../scripts/bundle/bundle.ts";
import { fillRelease } from "../../../scripts/release/folder.ts";
import { bundleIsFresh } from "../../../scripts/setup/bundle.mjs";
import { sha256Hex } from "../../../src/util/hash.ts";
import { execute } from "../run.ts";
import { type Directory, startDirectory } from "./directory.ts";
import { type Launchd, type LaunchdOptions, startLaunchd } from "./launchd.ts";
import { plutil } from "./plutil.ts";
import { type Replayed, replayCommands } from "./replayed-commands.ts";
import { type Systemd, startSystemd } from "./systemd.ts";

export const PREFIX = "usr/local/lib/metalbridge";
export const PLIST = "Library/LaunchDaemons/dev.metalbridge.agent.plist";
export const STATE = "usr/local/var/metalbridge";
export const LABEL = "dev.metalbridge.agent";
/** On a busy machine an agent takes seconds to start. */
export const PATIENT = ["--timeout-seconds", "90"];
/** As every program of `npm test`, without the flags that save memory. systemd starts its agents with them. */
const { METALBRIDGE_IS_SMALL } = process.env;
const SMALL: Readonly<Record<string, string>> =
  METALBRIDGE_IS_SMALL === undefined ? {} : { METALBRIDGE_IS_SMALL };
/** What is tested here changes owners. */
export const isRoot = process.geteuid?.() === 0;

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Machine extends AsyncDisposable {
  /** All paths of the installation are below it. */
  readonly root: string;
  readonly launchd: Launchd;
  readonly systemd: Systemd;
  readonly directory: Directory;
  /** Every call of a replayed command. */
  readonly calls: string[];
  readonly bin: string;
  /** Runs the program of a release on this machine. */
  readonly program: (release: string, args: readonly string[], options?: RunOptions) => Promise<Ran>;
  /** The same for verbs of the installation: `metalbridge VERB … --root ROOT --platform …`. */
  readonly run: (release: string, args: readonly string[], options?: RunOptions) => Promise<Ran>;
  /** Text of a file below the root; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  readonly at: (file: string) => string;
  /** The installed release. */
  readonly installed: string;
  readonly current: () => string;
  readonly versions: () => readonly string[];
  /** What `metalbridge service` shows. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON for assertions
  readonly service: () => Promise<any>;
  /** Everything below the root but folders, as whole paths. */
  readonly files: () => readonly string[];
}

export interface RunOptions {
  readonly uid?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export type MachineOptions = LaunchdOptions & {
  readonly platform?: "darwin" | "linux";
  readonly commands?: Readonly<Record<string, Replayed>>;
};

export async function startMachine({
  platform = "darwin",
  commands = {},
  ...options
}: MachineOptions = {}): Promise<Machine> {
  const root = mkdtempSync(path.join(tmpdir(), "mb-machine-"));
  chmodSync(root, 0o755);
  const directory = startDirectory();
  const { idsOf } = directory;
  const launchd = startLaunchd({ idsOf, ...options, env: { ...SMALL, ...options.env } });
  const systemd = startSystemd({ folder: path.join(root, "etc/systemd/system"), idsOf, ...options });
  const replayed = await replayCommands({
    ...directory.commands,
    launchctl: launchd.launchctl,
    plutil,
    systemctl: systemd.systemctl,
    ...commands,
  });
  const env = { PATH: `${replayed.bin}:/usr/bin:/bin`, HOME: path.join("/", "home", "me"), ...SMALL };
  const program: Machine["program"] = (release, args, { uid, env: more } = {}) =>
    runProgram(path.join(release, "bin", "metalbridge"), args, { env: { ...env, ...more }, uid });
  const run: Machine["run"] = (release, args, options) =>
    program(release, [...args, "--root", root, "--platform", platform], options);
  const at = (file: string) => path.join(root, file);
  const installed = at(`${PREFIX}/current`);
  return {
    root,
    launchd,
    systemd,
    directory,
    program,
    run,
    at,
    calls: replayed.calls,
    bin: replayed.bin,
    installed,
    current: () => path.basename(readlinkSync(installed)),
    versions: () => readdirSync(at(`${PREFIX}/versions`)).sort(),
    service: async () => JSON.parse((await run(installed, ["service", "--output", "json"])).out),
    files: () =>
      readdirSync(root, { recursive: true, withFileTypes: true, encoding: "utf8" })
        .filter((entry) => !entry.isDirectory())
        .map((entry) => path.join(entry.parentPath, entry.name)),
    read: (file) => (existsSync(at(file)) ? readFileSync(at(file), "utf8") : undefined),
    [Symbol.asyncDispose]: async () => {
      await launchd.stopAll();
      await systemd.stopAll();
      await replayed[Symbol.asyncDispose]();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

export async function runProgram(
  program: string,
  args: readonly string[],
  options: { readonly env: Readonly<Record<string, string>>; readonly uid?: number | undefined },
): Promise<Ran> {
  const { code, stdout, stderr } = await execute(program, args, { cwd: "/", timeoutMs: 600_000, ...options });
  return { code: typeof code === "number" ? code : 128, out: stdout, err: stderr };
}

export interface ReleaseChange {
  readonly program?: string;
  /** True if `program` runs the bundle too, which is else left out. */
  readonly hasBundle?: boolean;
  readonly platform?: "darwin" | "linux";
}

export interface Releases extends AsyncDisposable {
  /** A folder with this checkout as that version; `program` replaces its code. */
  readonly make: (version: string, change?: ReleaseChange) => string;
  /** A program of this checkout as one file beside them, which starts in a fraction of the time; the answer is its path. */
  readonly bundle: (source: string) => Promise<string>;
}

/** Without source maps and the console, three quarters of the files that each installation copies, hashes and syncs. */
async function bundleFor(folder: string): Promise<void> {
  const dist = path.join(packageRoot(), "dist");
  if (process.env.METALBRIDGE_USE_BUNDLE === undefined && !bundleIsFresh(packageRoot()))
    await bundleInto(folder);
  else cpSync(dist, folder, { recursive: true });
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }))
    if (name.endsWith(".map")) rmSync(path.join(folder, name));
  rmSync(path.join(folder, "console"), { recursive: true, force: true });
}

/** The bundle and Node are made once and shared. */
export async function prepareReleases(): Promise<Releases> {
  const folder = mkdtempSync(path.join(tmpdir(), "mb-releases-"));
  chmodSync(folder, 0o755);
  const bundle = path.join(folder, "bundle");
  await bundleFor(bundle);
  // Copied, because an account of the machine may not reach this checkout.
  const noBundle = path.join(folder, "no-bundle");
  mkdirSync(noBundle);
  const node = path.join(folder, "node");
  copyFileSync(process.execPath, node);
  chmodSync(node, 0o755);
  const launcher = path.join(folder, "node-launcher");
  writeFileSync(launcher, `#!/bin/sh\nexec "${node}" "$@"\n`);
  let made = 0;
  return {
    make: (version, { program, hasBundle = program === undefined, platform = "darwin" } = {}) => {
      made += 1;
      const release = path.join(folder, `${version}-${made}`);
      mkdirSync(release);
      const node = { file: launcher, version: process.versions.node };
      fillRelease(release, {
        version,
        platform: `${platform}-${process.arch}`,
        node,
        bundle: hasBundle ? bundle : noBundle,
        program,
      });
      return release;
    },
    bundle: async (source) => {
      const outfile = path.join(folder, `${path.parse(source).name}.mjs`);
      await build({
        entryPoints: [source],
        outfile,
        bundle: true,
        platform: "node",
        format: "esm",
        external: ["node-pty"],
        banner: { js: REQUIRE },
        logLevel: "warning",
      });
      return outfile;
    },
    [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Of a release folder, with its sum beside it. */
export function archiveOf(release: string, file: string): string {
  execFileSync("tar", ["-czf", file, "-C", path.dirname(release), path.basename(release)]);
  writeFileSync(`${file}.sha256`, `${sumOf(file)}  ${path.basename(file)}\n`);
  return file;
}

export function sumOf(file: string): string {
  return sha256Hex(readFileSync(file));
}
