/** `metalbridge fit`: shows the hosts a model fits on, what would make it fit, and what it would preempt. Without a model: the models that fit a machine. */

import { type Command, Option } from "commander";
import { PRIORITIES } from "../src/capacity/placement/priority.ts";
import { CACHE_TYPES } from "../src/engines/llamacpp/claim/kv-cache.ts";
import { withCluster } from "./cluster/cluster.ts";
import { type ClusterFlags, type OutputFormat, outputFlag, parseName } from "./cluster/flags.ts";
import { answerFit } from "./fit/answer.ts";
import { type FitFlags, parseLabels, parseScoreWeights } from "./fit/flags.ts";
import { addModelsFlags, fitModels, type ModelsFlags } from "./fit/models.ts";
import { renderFit } from "./fit/render.ts";
import { addSizingOptions } from "./fit/sizing.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printResult } from "./program/output.ts";

interface Flags
  extends Omit<FitFlags, "quantization">,
    Omit<ModelsFlags, "context" | "cacheType" | "output"> {
  readonly kubeconfig?: string;
  readonly kubeContext?: string;
  readonly namespace?: string;
  readonly output: OutputFormat | "wide";
}

/** Options and action of the verb. */
export function configureFit(command: Command): void {
  addSizingOptions(addModelsFlags(command))
    .argument(
      "[model]",
      "Model of the cluster, model of the catalog, or GGUF file: a path, https://… or hf://org/repo[/file] (default: list the catalog models that fit a machine)",
    )
    .option("--kubeconfig <file>", "path to the kubeconfig (default: KUBECONFIG, ~/.kube/config)")
    // --context is the context size of the model.
    .option("--kube-context <name>", "kubeconfig context to use")
    .option(
      "-n, --namespace <name>",
      "namespace (default: the namespace of the context, else default)",
      parseName,
    )
    .option("-f, --filename <file>", "manifest with an InferenceService, and optionally its Model")
    .addOption(
      new Option("--cache-type <type>", "element type of keys and values in the KV cache").choices([
        ...CACHE_TYPES,
      ]),
    )
    .addOption(
      new Option("--priority <name>", "priority of the service, which decides what it may preempt").choices(
        Object.keys(PRIORITIES),
      ),
    )
    .option("--selector <labels>", "only hosts with these labels, such as a=b,c=d", parseLabels)
    .option("--explain", "show speed, load, cost and score of each machine")
    .option(
      "--score-weights <pairs>",
      "weights of the controller in the score of machines (default: tps=0.7,utilization=0.2,cost=0.1)",
      parseScoreWeights,
    )
    .addOption(outputFlag("wide"))
    .action(fit);
}

async function fit(model: string | undefined, flags: Flags): Promise<void> {
  if (model === undefined && flags.filename === undefined) return fitModels(flags, clusterOf(flags));
  await withCluster("fit", clusterOf(flags), async (cluster) => {
    const answer = await answerFit(cluster, model, { ...flags, quantization: flags.quantization?.name });
    printResult(flags.output, answer, renderFit);
    // For scripts: exit code 1 if the model fits on no host now, or if that is unknown.
    if (!answer.hosts.some(({ fits }) => fits === true)) process.exitCode = exitCodes.failed;
  });
}

function clusterOf({ kubeconfig, kubeContext, namespace }: Flags): ClusterFlags {
  return { kubeconfig, context: kubeContext, namespace };
}
