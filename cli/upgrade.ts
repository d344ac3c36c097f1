/** `metalbridge upgrade`: upgrades this machine, or hosts of the cluster, a few at a time. */
import { access, constants } from "node:fs/promises";
import { type Command, Option } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import {
  addClusterFlags,
  countParser,
  outputFlag,
  parseDuration,
  parseHostNames,
  parseSeconds,
} from "./cluster/flags.ts";
import { addReleaseFlags, type UpgradeFlags, upgradeLocal } from "./install.ts";
import { type FleetUpgradeFlags, upgradeFleet } from "./upgrade/fleet.ts";

const LOCAL_START_SECONDS = 20;

type Flags = Omit<UpgradeFlags, "archive" | "timeoutSeconds"> &
  Partial<FleetUpgradeFlags> & { readonly timeoutSeconds?: number };

/** Options and action of the verb. */
export function configureUpgrade(command: Command): void {
  command.option(
    "--archive <file>",
    "release archive (default: the release of this program); repeat it for hosts of several platforms",
    collect,
  );
  addReleaseFlags(command)
    .option(
      "--timeout-seconds <n>",
      `time limit in seconds for the start of the agent (default: ${LOCAL_START_SECONDS}; on hosts of the cluster ${DEFAULTS.timeoutSeconds})`,
      parseSeconds,
    )
    .option(
      "--hosts <names>",
      "upgrade these hosts of the cluster, separated by commas, instead of this machine",
      parseHostNames,
    )
    .option("--all", "upgrade all hosts of the cluster, instead of this machine")
    .option("-l, --selector <labels>", "upgrade the hosts with these labels, such as room=a,tier!=test")
    .option(
      "--batch <n>",
      "number of hosts to upgrade, and with --drain to drain, at the same time (default: the first alone, then two; with --drain one)",
      countParser(1),
    )
    .option("--drain", "drain each host before the upgrade, and uncordon it afterwards")
    .option(
      "--timeout <time>",
      "time limit for each of drain, SSH session (without the copy) and health check of a host, such as 90s or 10m; 0 means no limit (default: 10m)",
      parseDuration,
    )
    .option("--ssh-user <name>", "user on the hosts (default: the default of ssh)")
    .option("--ssh-option <option>", "option for ssh -o; may be repeated", collect)
    .option("--ssh-program <file>", "program to run instead of ssh, with the same arguments")
    .addOption(
      new Option(
        "--address-from <source>",
        "target of ssh: the name of the Host, resolved by ~/.ssh/config, or the first address in its status (default: name)",
      ).choices(["name", "status"]),
    );
  addClusterFlags(command)
    .addOption(outputFlag())
    .action((flags: Flags) => upgrade(command, flags));
}

async function upgrade(command: Command, flags: Flags): Promise<void> {
  const chosen = [flags.hosts, flags.all, flags.selector].filter((value) => value !== undefined);
  if (chosen.length > 1) command.error("error: --hosts, --all and --selector are mutually exclusive");
  if (chosen.length === 0) return upgradeThisMachine(command, flags);
  const { archive = [], drain = false } = flags;
  if (archive.length === 0) command.error("error: --archive is required to upgrade hosts of the cluster");
  if (flags.sha256 !== undefined && archive.length > 1)
    command.error("error: --sha256 applies to one archive; put a .sha256 file next to each archive");
  if (flags.scope !== undefined) command.error("error: --scope is for this machine only");
  await requireArchives(archive);
  // The replicas of a drained host need memory on the other hosts.
  const batch = flags.batch ?? (drain ? 1 : undefined);
  await upgradeFleet({ ...DEFAULTS, ...flags, archive, drain, batch });
}

const DEFAULTS = {
  dryRun: false,
  allowDowngrade: false,
  timeout: 600_000,
  // The agent starts more slowly on a host under load.
  timeoutSeconds: 60,
  sshProgram: "ssh",
  sshOption: [],
  addressFrom: "name",
  output: "text",
} as const;

/** Options that require hosts of the cluster. */
const CLUSTER_ONLY = [
  ...(["batch", "drain", "timeout", "sshUser", "sshOption", "sshProgram", "addressFrom"] as const),
  ...(["kubeconfig", "context"] as const),
];

async function upgradeThisMachine(command: Command, flags: Flags): Promise<void> {
  const isJson = flags.output === "json" ? "output" : undefined;
  const stray = CLUSTER_ONLY.find((name) => flags[name] !== undefined) ?? isJson;
  if (stray !== undefined) {
    const name = stray.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    command.error(`error: --${name} needs --hosts, --all or --selector`);
  }
  const { archive = [], timeoutSeconds = LOCAL_START_SECONDS } = flags;
  if (archive.length > 1) command.error("error: pass only one --archive for this machine");
  await requireArchives(archive);
  await upgradeLocal({ ...flags, archive: archive[0], timeoutSeconds });
}

/** Fails early, before the checksum files are read. Throws ReleaseInvalid. */
async function requireArchives(archives: readonly string[]): Promise<void> {
  for (const archive of archives)
    await access(archive, constants.R_OK).catch((cause: Error) => {
      const why = `${archive} cannot be read: ${cause.message}`;
      throw new MetalbridgeError("ReleaseInvalid", why, { summary: "correct --archive" }, { cause });
    });
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
