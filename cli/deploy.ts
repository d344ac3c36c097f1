/** `metalbridge deploy`: creates a Model and a service for it, after showing where the model fits. */

import { type Command, Option } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import { RUNTIMES } from "../src/api/fields/runtimes.ts";
import type { Model } from "../src/api/model.ts";
import { PRIORITIES } from "../src/capacity/placement/priority.ts";
import { manifestYaml } from "../src/kube/manifest-yaml.ts";
import { catalogOption } from "./catalog/read.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import {
  addNamespacedFlags,
  booleanOption,
  type ClusterFlags,
  countParser,
  parseName,
  timeoutOption,
} from "./cluster/flags.ts";
import { createObjects } from "./deploy/create.ts";
import { followService } from "./deploy/follow.ts";
import { type DeployFlags, type DeployObjects, objectsOf } from "./deploy/objects.ts";
import { answerFit } from "./fit/answer.ts";
import { renderFit } from "./fit/render.ts";
import { confirm } from "./program/confirm.ts";
import { printLine, printNote, writeOut } from "./program/output.ts";

interface Flags extends ClusterFlags, DeployFlags {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly wait: boolean;
  readonly timeout: number;
}

/** Options and action of the verb. */
export function configureDeploy(command: Command): void {
  addNamespacedFlags(command)
    .argument(
      "<model>",
      "model of `catalog list` (Qwen/Qwen3-8B, qwen3:8b), weights (hf://org/repo[/file], org/repo:Q4_K_M, https://…, ollama://name:tag, an absolute path on the hosts), or Model of the cluster",
    )
    .option(
      "--name <name>",
      "name of the service and of its Model (default: derived from the weights)",
      parseName,
    )
    .addOption(
      new Option(
        "--runtime <name>",
        "runtime (default: chosen by the format of the weights and the hosts)",
      ).choices(RUNTIMES),
    )
    .option("--quantization <name>", "quantization, if the source has several, such as Q4_K_M")
    .option("--replicas <n>", "number of replicas", countParser(1))
    .option("--context-size <tokens>", "context size of the engine, shared by all slots", countParser(1))
    .option("--slots <n>", "number of concurrent requests", countParser(1))
    .addOption(new Option("--priority <name>", "priority of the service").choices(Object.keys(PRIORITIES)))
    .addOption(
      new Option("--mode <name>", "type of requests that the service answers").choices([
        "chat",
        "embedding",
        "rerank",
      ]),
    )
    .option("--secret <name>", "Secret with credentials for the source", parseName)
    .addOption(catalogOption())
    .option("--yes", "skip the confirmation")
    .option("--dry-run", "print the manifests without creating them")
    .addOption(booleanOption("--wait", "wait until the service is Ready"))
    .addOption(timeoutOption("stop waiting after this time (the service keeps starting)", "30m"))
    .action(deploy);
}

async function deploy(weights: string, flags: Flags): Promise<void> {
  await withCluster("deploy", flags, async (cluster) => {
    const objects = await objectsOf(cluster, weights, flags);
    const { catalogModel, model } = objects;
    if (catalogModel !== undefined && model !== undefined)
      printNote(`catalog model ${catalogModel}: ${describeSource(model.spec)}`);
    if (objects.similar !== undefined) printNote(guessText(weights, objects.similar));
    if (flags.dryRun === true) {
      const documents = [objects.model, objects.service].filter((object) => object !== undefined);
      writeOut(manifestYaml(documents));
      return;
    }
    if (flags.yes !== true) {
      printNote(`${await fitText(cluster, weights, objects, flags)}\n`);
      await confirm(`deploy ${objects.service.metadata.name} in namespace ${cluster.namespace}?`);
    }
    await createObjects(cluster, objects);
    printLine(`service ${objects.service.metadata.name} is created`);
    if (flags.wait) await followService(cluster, objects.service, flags.timeout);
  });
}

/** A typo in the name of a catalog model is a repository too. */
function guessText(weights: string, similar: readonly string[]): string {
  const hint = similar.length === 0 ? "" : `; similar names in the catalog: ${similar.join(", ")}`;
  return `${weights} is not in the catalog: it is taken as the repository hf://${weights}${hint}`;
}

function describeSource({ source, quantization }: Model["spec"]): string {
  return quantization === undefined ? source : `${source}, quantization ${quantization}`;
}

/** Information only: the controller decides, and it may read sources that this machine cannot read. */
async function fitText(
  cluster: Cluster,
  weights: string,
  { model }: DeployObjects,
  flags: Flags,
): Promise<string> {
  const { contextSize: context, slots, priority } = flags;
  const sizes = { context, slots, priority, quantization: model?.spec.quantization };
  try {
    return renderFit(await answerFit(cluster, model?.spec.source ?? weights, sizes));
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return `cannot tell whether the model fits: ${error.message}`;
  }
}
