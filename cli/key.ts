/** `metalbridge key`: manages the keys of the gateway. */
import { type Command, Option } from "commander";
import { LABEL_GATEWAY_KEY } from "../src/api/group.ts";
import { keyEntries } from "../src/gateway/key-entries.ts";
import { SECRETS } from "../src/kube/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import { durationParser, type OutputFormat, outputFlag, parseDuration, parseName } from "./cluster/flags.ts";
import { keyCreate, keyRevoke, keyRotate, keyUpdate } from "./key/actions.ts";
import { addGatewayFlags, addKeyFieldFlags, type KeyFlags } from "./key/flags.ts";
import { renderKeyTable } from "./key/table.ts";
import { printResult } from "./program/output.ts";

const NAME = ["<name>", "name of the key, which is the name of its Secret"] as const;

/** Subcommands, options and actions of the verb. */
export function configureKey(command: Command): void {
  addKeyFieldFlags(addGatewayFlags(command.command("create")))
    .description("Create a key, and print it once")
    .argument(...NAME, parseName)
    .addOption(outputFlag())
    .action(keyCreate);
  addGatewayFlags(command.command("list"))
    .description("List the keys: state, owner, scope, limits, expiry")
    .addOption(outputFlag())
    .action(keyList);
  addKeyFieldFlags(addGatewayFlags(command.command("update")))
    .description("Change the fields of a key that the options name")
    .argument(...NAME, parseName)
    .action(keyUpdate);
  addGatewayFlags(command.command("rotate"))
    .description(
      "Create a new key with the same name, and print it once; the previous key ends after an overlap",
    )
    .argument(...NAME, parseName)
    .addOption(
      new Option("--overlap <time>", "time for which the previous key stays valid; 0 ends it at once")
        .argParser(durationParser("0", "8760h"))
        .default(parseDuration("24h"), "24h"),
    )
    .addOption(outputFlag())
    .action(keyRotate);
  addGatewayFlags(command.command("revoke"))
    .description("Revoke a key; it is listed as revoked")
    .argument(...NAME, parseName)
    .option("--delete", "delete the Secret of the key")
    .action(keyRevoke);
}

async function keyList(flags: KeyFlags & { readonly output: OutputFormat }): Promise<void> {
  await withCluster("key", flags, async (cluster) => {
    const { namespace } = cluster;
    const secrets = await listAll(cluster, SECRETS, {
      namespace,
      labelSelector: `${LABEL_GATEWAY_KEY}=true`,
    });
    const entries = keyEntries(secrets, Date.now());
    printResult(flags.output, entries, () => renderKeyTable(entries, Date.now()));
  });
}
