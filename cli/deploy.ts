/** `metalbridge deploy`: a Model and a service for it, in one command, with the fit shown first. */

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
  parseDuration,
  parseName,
} from "./cluster/flags.ts";
import { createObjects } from "./deploy/create.ts";
import { followService } from "./deploy/follow.ts";
import { type DeployFlags, type DeployObjects, objectsOf } from "./deploy/objects.ts";
import { answerFit } from "./fit/answer.ts";
import { renderFit } from "./fit/render.ts";
import { confirm } from "./program/confirm.ts";
import { writeErr, writeOut } from "./program/output.ts";

interface Flags extends ClusterFlags, DeployFlags {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly wait: boolean;
  readonly timeout?: number;
}

const TIMEOUT_MS = 1_800_000;

/** Options and action of the verb. */
export function configureDeploy(command: Command): void {
  addNamespacedFlags(command)
    .argument(
      "<model>",
      "a model of `catalog list` (Qwen/Qwen3-8B, qwen3:8b), weights (hf://org/repo[/file], https://…, ollama://name:tag, an absolute path on the hosts), or a Model of the cluster",
    )
    .option("--name <name>", "name of the service and of its Model (default: from the weights)", parseName)
    .addOption(
      new Option("--runtime <name>", "engine (default: chosen by the format and the hosts)").choices(
        RUNTIMES,
      ),
    )
    .option("--quantization <name>", "which quantization, where the source has several: Q4_K_M")
    .option("--replicas <n>", "how many", countParser(1))
    .option("--context-size <tokens>", "context of the whole engine, shared by all slots", countParser(1))
    .option("--slots <n>", "requests at once", countParser(1))
    .addOption(new Option("--priority <name>", "priority").choices(Object.keys(PRIORITIES)))
    .addOption(new Option("--mode <name>", "what it answers").choices(["chat", "embedding", "rerank"]))
    .option("--secret <name>", "Secret with credentials for the source", parseName)
    .addOption(catalogOption())
    .option("--yes", "do not ask")
    .option("--dry-run", "print the manifests and create nothing")
    .addOption(booleanOption("--wait", "follow until the service is Ready"))
    .option(
      "--timeout <time>",
      "stop following after this time, such as 90s or 10m (default: 30m); 0: never. The service keeps trying",
      parseDuration,
    )
    .action(deploy);
}

async function deploy(weights: string, flags: Flags): Promise<void> {
  await withCluster("deploy", flags, async (cluster) => {
    const objects = await objectsOf(cluster, weights, flags);
    const { catalogModel, model } = objects;
    if (catalogModel !== undefined && model !== undefined)
      writeErr(`${catalogModel} of the catalog: ${describeSource(model.spec)}\n`);
    if (flags.dryRun === true) {
      const documents = [objects.model, objects.service].filter((object) => object !== undefined);
      writeOut(manifestYaml(documents));
      return;
    }
    if (flags.yes !== true) {
      writeErr(`${await fitText(cluster, weights, objects, flags)}\n\n`);
      await confirm(`deploy ${objects.service.metadata.name} in namespace ${cluster.namespace}?`);
    }
    await createObjects(cluster, objects);
    writeOut(`service ${objects.service.metadata.name} is created\n`);
    if (flags.wait) await followService(cluster, objects.service, flags.timeout ?? TIMEOUT_MS);
  });
}

function describeSource({ source, quantization }: Model["spec"]): string {
  return quantization === undefined ? source : `${source}, quantization ${quantization}`;
}

/** Information only: the controller decides, and what cannot be read here it may read. */
async function fitText(
  cluster: Cluster,
  weights: string,
  { model }: DeployObjects,
  flags: Flags,
): Promise<string> {
  const { contextSize, slots, priority } = flags;
  const sizes = {
    context: contextSize,
    slots,
    priority,
    quantization: model?.spec.quantization,
  };
  try {
    return renderFit(await answerFit(cluster, model?.spec.source ?? weights, sizes));
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return `whether it fits is not known here: ${error.message}`;
  }
}
