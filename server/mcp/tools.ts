/** Metalbridge's own tools: fit, placement, services, and a deployment that prompts the user. */

import { z } from "zod";
import { FIT_LEVELS } from "../../fitness/scoring/score.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { RUNTIMES } from "../../src/api/fields/runtimes.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { readyText, unreadyMessage } from "../../src/api/inference-service/serving.ts";
import {
  BACKEND_RUNTIMES,
  HOSTS,
  INFERENCE_REPLICAS,
  INFERENCE_SERVICES,
  MODELS,
} from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { fitOfService, fitOnFlavors } from "../../src/capacity/fit/service-fit.ts";
import { findNamedModels } from "../../src/capacity/named-models.ts";
import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { compareText } from "../../src/util/text.ts";
import { phaseText, stateOfReplica } from "../../src/verdicts/replica.ts";
import { type RestRoute, routes, wholeBody } from "../rest/routes.ts";
import { type ClusterObjects, invalidArgument, type McpContext } from "./context.ts";

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodObject;
  /** True if the tool changes nothing. */
  readonly isReadOnly: boolean;
  /** Rejects with MetalbridgeError for errors that the caller can fix. */
  readonly answer: (args: Readonly<Record<string, unknown>>, ask: ConfirmWithUser) => Promise<object>;
}

/** Prompts the client's user; rejects with MetalbridgeError if the client cannot. */
export type ConfirmWithUser = (question: string) => Promise<boolean>;

const LIMIT = 10;
/** An answer is built in one turn of the event loop, and a model reads all of it. */
const MAX_ROWS = 100;
export const name = z.string().min(1).max(512);
export const objectNameSchema = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be a name of small letters, digits, - and .");
const namespace = objectNameSchema.max(63).optional();
export const limit = z.int().min(1).max(MAX_ROWS).default(LIMIT);

const fitInput = z.strictObject({
  model: name
    .optional()
    .describe(
      "Model name, repository or file name. The answer ranks the machines of the cluster for this model.",
    ),
  node: objectNameSchema
    .optional()
    .describe(
      "Name of a Host or Node. The answer ranks the catalog models for this machine. Default without model: the machine that this server runs on.",
    ),
  quantization: z
    .string()
    .max(64)
    .optional()
    .describe(
      "Requires model: simulates a placement with this quantization, next to the models already placed.",
    ),
  context: z
    .int()
    .min(1)
    .max(1e8)
    .optional()
    .describe("Requires model: simulates a placement with this context size, in tokens."),
  min_fit: z.enum(FIT_LEVELS).default("marginal").describe("Minimum fit level."),
  limit: limit.describe("Maximum number of rows."),
});
const serviceInput = z.strictObject({
  service: objectNameSchema.describe("Name of the InferenceService."),
  namespace: namespace.describe(
    "Default: the namespace of the kubeconfig context, or 'default' if it has none.",
  ),
});
const listInput = z.strictObject({ namespace: namespace.describe("Default: all namespaces."), limit });
const count = (description: string) => z.int().min(1).max(1e8).optional().describe(description);
const deployInput = z.strictObject({
  model: z
    .string()
    .min(1)
    .max(2048)
    .describe(
      "Source of the weights (hf://org/repo[/file], https://…, ollama://name:tag), or the name of a Model in the cluster.",
    ),
  name: objectNameSchema
    .max(63)
    .optional()
    .describe("Name of the service and its Model. Default: derived from the source."),
  namespace,
  runtime: z
    .enum(RUNTIMES)
    .optional()
    .describe("Inference engine. Default: chosen by the format of the weights and the available hosts."),
  quantization: z.string().max(64).optional(),
  replicas: count("Number of replicas."),
  contextSize: count("Context size of the engine in tokens, shared by all slots."),
  slots: count("Number of concurrent requests."),
  priority: z.enum(Object.keys(PRIORITIES) as [string, ...string[]]).optional(),
});

/** The tools that the context allows. */
export function ownTools(context: McpContext): readonly Tool[] {
  const { deploy } = context;
  return [
    {
      name: "fit",
      description:
        "Ranks the machines that fit a model, or the models that fit a machine, with score, memory and tokens per second. Uses exact memory claims and measured speeds.",
      input: fitInput,
      isReadOnly: true,
      answer: (args) => answerFit(context, args as z.output<typeof fitInput>),
    },
    {
      name: "explain_placement",
      description:
        "Explains why the replicas of a service run on their hosts, or why they are queued: the scheduler's reasons, the hosts with enough free memory now, and the changes that would make the service fit on the closest other hosts.",
      input: serviceInput,
      isReadOnly: true,
      answer: (args) => explainPlacement(context, args as z.output<typeof serviceInput>),
    },
    {
      name: "list_services",
      description:
        "Lists the inference services with their model, phase, ready replicas, hosts and endpoint.",
      input: listInput,
      isReadOnly: true,
      answer: (args) => listServices(context, args as z.output<typeof listInput>),
    },
    ...(deploy === undefined
      ? []
      : [
          {
            name: "deploy",
            description:
              "Creates a Model and an InferenceService for it. The user must confirm the objects first.",
            input: deployInput,
            isReadOnly: false,
            answer: async (args: Readonly<Record<string, unknown>>, ask: ConfirmWithUser) => {
              const created = await deploy(args as z.output<typeof deployInput>, ask);
              if (created === undefined) throw new MetalbridgeError("NotConfirmed", "nothing was changed");
              return { created: true, ...created };
            },
          },
        ]),
  ];
}

/** Uses the routes of the density API. */
async function answerFit(
  context: McpContext,
  { model, node, quantization, context: tokens, min_fit, limit: maxRows }: z.output<typeof fitInput>,
): Promise<object> {
  if (model !== undefined && node !== undefined) throw invalidArgument("set model or node, not both");
  if (model === undefined && (quantization !== undefined || tokens !== undefined))
    throw invalidArgument("quantization and context require model");
  const isLocal = model === undefined && node === undefined;
  if (isLocal && context.localDensity === undefined) throw invalidArgument("set model or node");
  const local = isLocal ? await context.localDensity?.() : undefined;
  const { density, missing = [] } = local === undefined ? await context.density() : { density: local };
  const ask = (path: string, rest: { query?: object; body?: object; name?: string }): object => {
    const route = routes.find((one: RestRoute) => one.path === path);
    const query = route?.query.parse(rest.query ?? {}) ?? {};
    const input = { density, now: context.now(), query, body: rest.body, name: rest.name ?? "" };
    const answer = route?.answer(input);
    if (answer?.status === 200) return { ...wholeBody(answer), ...notesOf(missing) };
    throw invalidArgument([answer?.text ?? "unknown route", ...missing].join(". "));
  };
  if (model === undefined) {
    const named = node ?? density.sites()[0]?.place.name ?? "";
    const detail = ask("/api/v1/density/nodes/:name", { name: named, query: { min_fit } });
    const { ModelFits: fits, ...rest } = detail as { readonly ModelFits: readonly object[] };
    return { ...rest, total: fits.length, ModelFits: fits.slice(0, maxRows) };
  }
  if (quantization === undefined && tokens === undefined)
    return ask("/api/v1/density/query", { query: { model, min_fit, limit: maxRows } });
  const body = { model, quantization, context: tokens };
  return ask("/api/v1/density/simulate", { query: { min_fit, limit: maxRows }, body });
}

/** Nothing for a caller who may see everything. */
function notesOf(missing: readonly string[] = []) {
  return missing.length === 0 ? {} : { missing };
}

async function listServices(
  context: McpContext,
  { namespace: only, limit: maxRows }: z.output<typeof listInput>,
): Promise<object> {
  return context.cluster(async (cluster) => {
    const [services, replicas] = await Promise.all([
      cluster.list(INFERENCE_SERVICES, only),
      cluster.list(INFERENCE_REPLICAS, only),
    ]);
    const shown = services
      .map((service) => ({ service, key: keyOf(service.metadata) }))
      .sort((a, b) => compareText(a.key, b.key))
      .slice(0, maxRows);
    const byService = Map.groupBy(replicas, serviceKeyOf);
    const rows = shown.map(({ service, key }) => serviceRow(service, byService.get(key) ?? []));
    return { total: services.length, services: rows, ...notesOf(cluster.missing?.()) };
  });
}

function serviceRow(service: InferenceService, replicas: readonly InferenceReplica[]) {
  const { metadata, spec, status } = service;
  return {
    service: keyOf(metadata),
    model: mainModelOf(spec),
    phase: status?.phase ?? "Pending",
    ready: readyText(service),
    on: status?.on ?? "",
    endpoint: status?.endpoint ?? "",
    message: unreadyMessage(status),
    hosts: [...new Set(replicas.map((replica) => replica.spec.template.hostName))].sort(compareText),
  };
}

/** `namespace/name` of a replica's service. */
function serviceKeyOf({ metadata, spec }: InferenceReplica): string {
  return keyOf({ namespace: metadata.namespace, name: spec.template.serviceName });
}

async function explainPlacement(
  context: McpContext,
  { service: wanted, namespace: given }: z.output<typeof serviceInput>,
): Promise<object> {
  return context.cluster(async (cluster) => {
    const place = given ?? cluster.namespace;
    const service = (await cluster.list(INFERENCE_SERVICES, place)).find(
      ({ metadata }) => metadata.name === wanted,
    );
    if (service === undefined)
      throw new MetalbridgeError("ServiceNotFound", `there is no InferenceService ${wanted} in ${place}`);
    const key = keyOf(service.metadata);
    const replicas = (await cluster.list(INFERENCE_REPLICAS, place)).filter(
      (replica) => serviceKeyOf(replica) === key,
    );
    const { status } = service;
    return {
      ...serviceRow(service, replicas),
      queuePosition: status?.queuePosition ?? 0,
      waitingFor: status?.waitingFor ?? "",
      chosen: status?.placement?.chosen ?? [],
      misses: status?.placement?.misses ?? [],
      preempted: status?.placement?.preempted ?? [],
      replicas: replicas.map((replica) => ({
        name: replica.metadata.name,
        host: replica.spec.template.hostName,
        phase: phaseText(replica),
        claimBytes: replica.spec.memory.claimBytes,
        message: stateOfReplica(replica).message,
      })),
      oneMore: await oneMoreReplica(context, cluster, service),
    };
  });
}

/** Returns the reason instead if the user may not read the whole cluster, or the service cannot run. */
async function oneMoreReplica(
  context: McpContext,
  cluster: ClusterObjects,
  service: InferenceService,
): Promise<object> {
  try {
    const [hosts, replicas, services, models] = await Promise.all([
      cluster.list(HOSTS),
      cluster.list(INFERENCE_REPLICAS),
      cluster.list(INFERENCE_SERVICES),
      cluster.list(MODELS, service.metadata.namespace),
    ]);
    const missing = cluster.missing?.() ?? [];
    if (missing.length > 0) return { unknown: missing.join(" ") };
    const named = findNamedModels(service.spec, (name) =>
      models.find(({ metadata }) => metadata.name === name),
    );
    const { backendRuntime } = service.spec;
    const runtimes = backendRuntime === undefined ? [] : await cluster.list(BACKEND_RUNTIMES);
    const runtime = runtimes.find(({ metadata }) => metadata.name === backendRuntime?.name);
    const backend = runtime && { name: runtime.metadata.name, spec: runtime.spec };
    const objects = { service, backend, ...named, hosts, replicas, services };
    const { model } = named;
    const nowMs = context.now().wallMs;
    const { report } =
      model === undefined ? fitOfService(objects, nowMs) : fitOnFlavors({ ...objects, model }, nowMs);
    return { ...report, total: report.hosts.length, hosts: report.hosts.slice(0, MAX_ROWS) };
  } catch (error) {
    if (error instanceof MetalbridgeError) return { unknown: describeError(error) };
    throw error;
  }
}
