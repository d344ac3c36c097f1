/** `metalbridge upgrade`: the version on this machine, or on hosts of the cluster, a few at a time. */
import { access, constants } from "node:fs/promises";
import { type Command, Option } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import { addClusterFlags, countParser, outputFlag, parseDuration, parseHostName } from "./cluster/flags.ts";
import { parseSeconds } from "./install/context.ts";
import { addReleaseFlags, type UpgradeFlags, upgradeLocal } from "./install.ts";
import { type FleetUpgradeFlags, upgradeFleet } from "./upgrade/fleet.ts";

const HERE_SECONDS = 20;

type Flags = Omit<UpgradeFlags, "archive" | "timeoutSeconds"> &
  Partial<FleetUpgradeFlags> & { readonly timeoutSeconds?: number };

/** Options and action of the verb. */
export function configureUpgrade(command: Command): void {
  command.option(
    "--archive <file>",
    "release archive (default: the release that this program belongs to); repeated for hosts of several platforms",
    collect,
  );
  addReleaseFlags(command)
    .option(
      "--timeout-seconds <n>",
      `how long the agent may take until it serves (default: ${HERE_SECONDS}; on hosts of the cluster ${DEFAULTS.timeoutSeconds})`,
      parseSeconds,
    )
    .option(
      "--hosts <names>",
      "hosts of the cluster, separated by commas, instead of this machine",
      parseHosts,
    )
    .option("--all", "all hosts of the cluster, instead of this machine")
    .option("-l, --selector <labels>", "hosts of the cluster with these labels, such as room=a,tier!=test")
    .option(
      "--batch <n>",
      "hosts at the same time, with --drain also drained at the same time (default: the first one alone, then two; with --drain one)",
      countParser(1),
    )
    .option("--drain", "drain each host before its upgrade, and uncordon it afterwards")
    .option(
      "--timeout <time>",
      "how long the drain of a host may take, then its SSH session (besides the copy), and then its health, such as 90s or 10m (default: 10m); 0: no limit",
      parseDuration,
    )
    .option("--ssh-user <name>", "account on the hosts (default: that of ssh)")
    .option("--ssh-option <option>", "as for ssh -o; may be repeated", collect)
    .option("--ssh-program <file>", "what to run instead of ssh, with the arguments of ssh")
    .addOption(
      new Option(
        "--address-from <source>",
        "where ssh connects to: the name of the Host, as ~/.ssh/config knows it, or the first address in its status (default: name)",
      ).choices(["name", "status"]),
    );
  addClusterFlags(command)
    .addOption(outputFlag())
    .action((flags: Flags) => upgrade(command, flags));
}

async function upgrade(command: Command, flags: Flags): Promise<void> {
  const chosen = [flags.hosts, flags.all, flags.selector].filter((value) => value !== undefined);
  if (chosen.length > 1) command.error("error: --hosts, --all and --selector exclude each other");
  if (chosen.length === 0) return here(command, flags);
  const { archive = [], drain = false } = flags;
  if (archive.length === 0) command.error("error: --archive is needed to upgrade hosts of the cluster");
  if (flags.sha256 !== undefined && archive.length > 1)
    command.error("error: --sha256 is of one archive; put a .sha256 file beside each");
  if (flags.scope !== undefined) command.error("error: --scope is for this machine only");
  await requireArchives(archive);
  // Replicas of a drained host need room on the other hosts.
  const batch = flags.batch ?? (drain ? 1 : undefined);
  await upgradeFleet({ ...DEFAULTS, ...flags, archive, drain, batch });
}

const DEFAULTS = {
  dryRun: false,
  allowDowngrade: false,
  timeout: 600_000,
  // A host that serves under load starts its agent more slowly.
  timeoutSeconds: 60,
  sshProgram: "ssh",
  sshOption: [],
  addressFrom: "name",
  output: "text",
} as const;

const FARM_ONLY = [
  ...(["batch", "drain", "timeout", "sshUser", "sshOption", "sshProgram", "addressFrom"] as const),
  ...(["kubeconfig", "context"] as const),
];

async function here(command: Command, flags: Flags): Promise<void> {
  const isJson = flags.output === "json" ? "output" : undefined;
  const stray = FARM_ONLY.find((name) => flags[name] !== undefined) ?? isJson;
  if (stray !== undefined) {
    const name = stray.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    command.error(`error: --${name} needs --hosts, --all or --selector`);
  }
  const { archive = [], timeoutSeconds = HERE_SECONDS } = flags;
  if (archive.length > 1) command.error("error: this machine is upgraded with one archive");
  await requireArchives(archive);
  await upgradeLocal({ ...flags, archive: archive[0], timeoutSeconds });
}

/** Before their checksums are looked for beside them. Throws ReleaseInvalid. */
async function requireArchives(archives: readonly string[]): Promise<void> {
  for (const archive of archives)
    await access(archive, constants.R_OK).catch((cause: Error) => {
      const why = `${archive} cannot be read: ${cause.message}`;
      throw new MetalbridgeError("ReleaseInvalid", why, { summary: "correct --archive" }, { cause });
    });
}

function parseHosts(text: string): readonly string[] {
  return text.split(",").map(parseHostName);
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
