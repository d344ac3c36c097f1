/** `metalbridge engine`: manages engines on this machine that only root can change, pinned by their SHA-256. */
import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { Argument, type Command, InvalidArgumentError } from "commander";
import { createProgramFinder } from "../agent/engines/llamacpp/program.ts";
import {
  type EngineStore,
  installEngine as install,
  removeEngine as remove,
  useEngine as use,
} from "../launchd/engines/engines.ts";
import { changesOf, type InstalledEngine, listEngines, versionPlaces } from "../launchd/engines/store.ts";
import { explainDiskFull } from "../launchd/install.ts";
import { agentEnvironment } from "../launchd/layout/agent-command.ts";
import type { Choices } from "../launchd/plan/entries.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { readPrograms } from "../src/macos/doctor/programs.ts";
import { createCommand, createRunTool } from "../src/util/command.ts";
import { type OutputFormat, outputFlag } from "./cluster/flags.ts";
import { readLinuxPrograms } from "./doctor/linux.ts";
import {
  addInstallScopeFlags,
  existingChoices,
  type InstallScopeFlags,
  portsFor,
  toolPath,
} from "./install/context.ts";
import { withInstallLock } from "./install/install-lock.ts";
import { printJson, printLine } from "./program/output.ts";
import { formatTable } from "./program/table.ts";

interface InstallFlags extends InstallScopeFlags {
  readonly from: string;
  readonly sha256?: string;
  readonly trust?: boolean;
}

/** An engine in the JSON of `list`. Fields of the record are null if the record is damaged. */
interface ListedEngine {
  readonly engine: "llamacpp";
  readonly name: string;
  readonly version: string;
  readonly isCurrent: boolean;
  /** The real path, which firewall rules use. */
  readonly program: string | undefined;
  readonly sha256: string | null;
  readonly from: string | null;
  readonly installedAt: string | null;
  /** Why the record cannot be read. `changes` has it too, for scripts that compare only `changes`. */
  readonly damage?: string;
  readonly changes: readonly string[];
}

/** Subcommands, options and actions of the verb. */
export function configureEngine(command: Command): void {
  addInstallScopeFlags(command.command("install"))
    .description("Install a llama.cpp release that only root can change, and use it from now on")
    .addArgument(new Argument("<engine>", "engine to install").choices(["llamacpp"]))
    .requiredOption("--from <archive>", "release archive (.tar.gz): a file or a URL")
    .option("--sha256 <sum>", "SHA-256 of the archive, from its publisher", parseSum)
    .option("--trust", "accept the archive without a SHA-256")
    .action((_: string, flags: InstallFlags) =>
      change(flags, `unpack ${flags.from}`, (store) =>
        install(store, {
          from: /^https?:/.test(flags.from) ? flags.from : resolve(flags.from),
          sha256: flags.sha256,
          isTrusted: flags.trust === true,
        }),
      ),
    );
  addInstallScopeFlags(command.command("list"))
    .description("List the installed engines, and their files that have changed")
    .addOption(outputFlag())
    .action(list);
  addInstallScopeFlags(command.command("use"))
    .description("Switch to another installed version; engines use it from their next start")
    .argument("<version>", "version in the list, such as b11669")
    .action((version: string, flags: InstallScopeFlags) =>
      change(flags, `use ${version}`, (store) => use(store, version)),
    );
  addInstallScopeFlags(command.command("remove"))
    .description("Remove an installed version that no process is running")
    .argument("<version>", "version in the list, such as b11669")
    .action((version: string, flags: InstallScopeFlags) =>
      change(flags, `remove ${version}`, (store) => remove(store, version)),
    );
}

function parseSum(text: string): string {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError("It must be 64 hexadecimal digits.");
}

async function change(
  flags: InstallScopeFlags,
  what: string,
  work: (store: EngineStore) => Promise<void>,
): Promise<void> {
  const choices = await existingChoices(flags);
  // The account of the agent must be able to read the files, whatever the umask of root.
  process.umask(0o022);
  await withInstallLock(choices, portsFor(choices), async () => {
    try {
      await work(storeOf(flags, choices));
    } catch (error) {
      throw explainDiskFull(error, what);
    }
  });
}

function storeOf({ platform }: InstallScopeFlags, choices: Choices): EngineStore {
  const { layout } = choices;
  const { accounts, print } = portsFor(choices);
  const env = agentEnvironment(layout.stateDir);
  return {
    prefix: layout.prefix,
    platform: `${platform}-${process.arch}`,
    print,
    owner: process.geteuid?.() ?? 0,
    run: createCommand(toolPath()),
    now: () => new Date(),
    commands: () => readCommands(platform),
    readVersion: async (program) => {
      const account = layout.account === undefined ? undefined : await accounts.observe(layout.account);
      if (account !== undefined && account.at !== "present")
        throw new MetalbridgeError(
          "InstallNotFound",
          `there is no account ${layout.account} to run ${program}`,
        );
      const as = account && { uid: account.uid, gid: account.gid };
      const found = await createProgramFinder({ paths: [program], env, as })();
      return found?.capabilities.version ?? "unknown";
    },
  };
}

async function readCommands(platform: InstallScopeFlags["platform"]): Promise<readonly string[]> {
  const found =
    platform === "darwin"
      ? await readPrograms(createRunTool(toolPath()))
      : await readLinuxPrograms({ proc: "/proc", sys: "/sys", dev: "/dev" });
  if ("unknown" in found)
    throw new MetalbridgeError("EngineInUse", `cannot list the running programs: ${found.unknown}`);
  return found.value.map(({ command }) => command);
}

async function list(flags: InstallScopeFlags & { readonly output: OutputFormat }): Promise<void> {
  const { layout } = await existingChoices(flags);
  const owner = layout.account === undefined ? (process.getuid?.() ?? 0) : 0;
  const found = await Promise.all((await listEngines(layout.prefix)).map((engine) => entryOf(engine, owner)));
  if (flags.output === "json") return printJson(found);
  const rows = found.map(({ name, isCurrent, sha256, installedAt, damage, changes }) => [
    ...[name, stateOf(isCurrent, damage), sha256 ?? "", installedAt ?? ""],
    damage ?? (changes.length === 0 ? "" : `changed: ${changes.slice(0, 3).join("; ")}`),
  ]);
  printLine(formatTable(["ENGINE", "STATE", "SHA-256", "INSTALLED", "FILES"], rows));
}

function stateOf(isCurrent: boolean, damage: string | undefined): string {
  return [...(isCurrent ? ["in use"] : []), ...(damage === undefined ? [] : ["damaged"])].join(", ");
}

async function entryOf(engine: InstalledEngine, owner: number): Promise<ListedEngine> {
  const { name, version, isCurrent, folder, record } = engine;
  const program = await realpath(versionPlaces(folder).program).catch(() => undefined);
  const common = { engine: "llamacpp" as const, name, version, isCurrent, program };
  const changes = await changesOf(engine, owner);
  if ("damage" in record)
    return { ...common, sha256: null, from: null, installedAt: null, damage: record.damage, changes };
  const { sha256, from, installedAt } = record;
  return { ...common, sha256, from, installedAt, changes };
}
