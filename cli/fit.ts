/** `metalbridge fit`: on which hosts a model fits now, what would make it fit, and what it would preempt; without a model, which models fit a machine. */

import { type Command, Option } from "commander";
import { PRIORITIES } from "../src/capacity/placement/priority.ts";
import { CACHE_TYPES } from "../src/engines/llamacpp/claim/kv-cache.ts";
import { withCluster } from "./cluster/cluster.ts";
import { type ClusterFlags, countParser, type OutputFormat, outputFlag, parseName } from "./cluster/flags.ts";
import { answerFit } from "./fit/answer.ts";
import { type FitFlags, parseLabels } from "./fit/flags.ts";
import { addModelsFlags, fitModels, type ModelsFlags } from "./fit/models.ts";
import { renderFit } from "./fit/render.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeOut } from "./program/output.ts";

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
  addModelsFlags(command)
    .argument(
      "[model]",
      "a Model of the cluster, a model of the catalog, or a GGUF file: a path, https://… or hf://org/repo[/file]. None: which models of the catalog fit a machine",
    )
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    // --context is the model's, as everywhere else where a model is meant.
    .option("--kube-context <name>", "context of the kubeconfig")
    .option("-n, --namespace <name>", "namespace (default: that of the context, else default)", parseName)
    .option("-f, --filename <file>", "an InferenceService, with its Model or without, as it would be applied")
    .option("-c, --context <tokens>", "context of the whole engine, shared by all slots", countParser(1))
    .option("-s, --slots <count>", "requests at once", countParser(1))
    .addOption(cacheType("--cache-type", "element type of keys and values in the KV cache"))
    .addOption(cacheType("--cache-type-k", "element type of the keys"))
    .addOption(cacheType("--cache-type-v", "element type of the values"))
    .option("--prompt-cache <MiB>", "memory for the prompts of earlier requests", countParser(0))
    .option("--batch <tokens>", "prompt tokens handed over in one step", countParser(1))
    .option("--ubatch <tokens>", "prompt tokens computed at once", countParser(1))
    .addOption(new Option("--flash-attention <on|off>", "flash attention").choices(["on", "off"]))
    .addOption(new Option("--priority <name>", "what it may preempt").choices(Object.keys(PRIORITIES)))
    .option("--selector <labels>", "only hosts with these labels: a=b,c=d", parseLabels)
    .addOption(outputFlag("wide"))
    .action(fit);
}

async function fit(model: string | undefined, flags: Flags): Promise<void> {
  if (model === undefined && flags.filename === undefined) return fitModels(flags, clusterOf(flags));
  await withCluster("fit", clusterOf(flags), async (cluster) => {
    const answer = await answerFit(cluster, model, {
      ...flags,
      quantization: flags.quantization?.name,
    });
    const text = flags.output === "json" ? JSON.stringify(answer, undefined, 2) : renderFit(answer);
    writeOut(`${text}\n`);
    // For scripts: 1 where it fits on no host now, or where that is unknown.
    if (!answer.hosts.some(({ fits }) => fits === true)) process.exitCode = exitCodes.failed;
  });
}

function clusterOf({ kubeconfig, kubeContext, namespace }: Flags): ClusterFlags {
  return {
    kubeconfig,
    context: kubeContext,
    namespace,
  };
}

function cacheType(flag: string, what: string): Option {
  return new Option(`${flag} <type>`, what).choices([...CACHE_TYPES]);
}
