/** llmfit's six tools with its names and shapes, from its REST API for one machine. As in llmfit, errors are part of the answer. */
import { z } from "zod";
import type { DensitySite } from "../../fitness/density/density.ts";
import { systemOf } from "../../fitness/density/views.ts";
import { factsOfMachine } from "../../fitness/llmfit/rest/host-facts.ts";
import type { RestRequest } from "../../fitness/llmfit/rest/rest.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { invalidArgument, type McpContext } from "./context.ts";
import { limit, name, objectNameSchema, type Tool } from "./tools.ts";

type Args = Readonly<Record<string, unknown>>;
type Answer = Readonly<Record<string, unknown>>;

interface ToolCall {
  readonly site: DensitySite;
  /** True if the machine is unreachable. */
  readonly isStale: boolean;
  readonly args: Args;
  /** The response of the REST API. Throws MetalbridgeError for a refusal. */
  readonly get: (path: string, query?: Args) => Answer;
  readonly post: (path: string, body: Args) => Answer;
}

interface LlmfitTool {
  readonly name: string;
  readonly description: string;
  readonly input?: z.ZodRawShape;
  readonly answer: (call: ToolCall) => Answer;
}

const word = z.string().max(64).optional();
const recommendInput = {
  limit,
  use_case: word.describe(
    "Use case: general, coding, reasoning, chat, multimodal or embedding. Default: all.",
  ),
  min_fit: word.describe("Minimum fit level: perfect, good, marginal or too_tight. Default: marginal."),
  runtime: word.describe("Runtime: any, mlx, llamacpp or vllm. Default: any."),
  license: z.string().max(512).optional().describe("Allowed licenses, separated by commas. Default: all."),
  sort: word.describe("Sort order: score, tps, params, mem, ctx, date or use_case. Default: score."),
};
const searchInput = { query: name.describe("Part of a model name, provider, size or use case."), limit };
const planInput = {
  model: name.describe("Full name of the model in the catalog."),
  context: z.int().min(1).max(4_294_967_295).default(8192).describe("Tokens."),
  quant: word.describe("Quantization, for example Q4_K_M. Default: the model's default quantization."),
  target_tps: z.number().optional().describe("Target speed in tokens per second."),
};

const LLMFIT_TOOLS: readonly LlmfitTool[] = [
  {
    name: "get_system_specs",
    description: "Returns the hardware of a machine: memory, processor and GPUs.",
    answer: ({ site, get }) => ({ node: site.place.name, system: get("/system").system }),
  },
  {
    name: "recommend_models",
    description: "Returns the models that fit a machine best, with score, quantization, memory and speed.",
    input: recommendInput,
    answer: ({ args, get }) => {
      const { total_models, returned_models, models } = get("/models", args);
      return { total_models, returned_models, models };
    },
  },
  {
    name: "search_models",
    description: "Searches models by name, provider or use case, and returns how each fits a machine.",
    input: searchInput,
    answer: ({ args: { query, ...rest }, get }) => {
      const { total_models, returned_models, models } = get("/models", { search: query, ...rest });
      return { query, total_matches: total_models, returned_models, models };
    },
  },
  {
    name: "plan_hardware",
    description: "Returns the hardware that a model needs, and what a machine lacks for it.",
    input: planInput,
    answer: ({ args, post }) => post("/plan", args),
  },
  {
    name: "get_runtimes",
    description: "Returns the inference engines installed on a machine.",
    answer: ({ site, get }) => {
      const { runtimes } = get("/runtimes") as { readonly runtimes: readonly object[] };
      // llmfit lists this runtime only in its tool, not in its REST API.
      const installed = site.place.runtimes.some((one) => one.name === "ramalama");
      return { runtimes: [...runtimes, { name: "ramalama", installed }] };
    },
  },
  {
    name: "get_installed_models",
    description: "Returns the models installed on a machine.",
    answer: ({ get }) => ({ models: get("/installed").models }),
  },
];

export function llmfitTools(context: McpContext): readonly Tool[] {
  const node =
    context.localDensity === undefined
      ? objectNameSchema.describe("Name of a Host or Node.")
      : objectNameSchema
          .optional()
          .describe("Name of a Host or Node of the cluster. Default: the machine that this server runs on.");
  return LLMFIT_TOOLS.map(({ name, description, input = {}, answer }) => ({
    name,
    description,
    isReadOnly: true,
    input: z.strictObject({ ...input, node }),
    answer: async ({ node: wanted, ...args }) => {
      try {
        const call = await openCall(context, wanted as string | undefined, args);
        return { ...answer(call), ...(call.isStale ? { stale: true } : {}) };
      } catch (error) {
        if (error instanceof MetalbridgeError) return { error: describeError(error) };
        throw error;
      }
    },
  }));
}

async function openCall(context: McpContext, wanted: string | undefined, args: Args): Promise<ToolCall> {
  const { localDensity: here, now, llmfit } = context;
  const seen =
    wanted === undefined && here !== undefined ? { density: await here() } : await context.density();
  const { density, missing = [] } = seen;
  const site = wanted === undefined ? density.sites()[0] : density.site(wanted);
  if (site === undefined)
    throw invalidArgument([`no Host or Node is named ${wanted}`, ...missing].join(". "));
  const { place } = site;
  const facts = factsOfMachine({ ...place, system: systemOf(site) });
  const answerTo = (request: Pick<RestRequest, "method" | "url" | "body">, isScored: boolean): Answer => {
    // An unknown machine, or one whose report contradicts its object, gets no scores.
    if (isScored && place.machine.at !== "known")
      throw invalidArgument(`${place.name}: ${place.machine.why}`);
    const rest = { ...request, isLocal: true, contentType: "application/json" };
    const { status, body } = llmfit(rest, facts, now().wallMs);
    if (status === 200 && typeof body !== "string") return body;
    throw invalidArgument(String(typeof body === "string" ? body : body.error));
  };
  return {
    site,
    args,
    isStale: density.isStale(site, now()),
    get: (path, query) => {
      const text = new URLSearchParams();
      for (const [key, value] of Object.entries(query ?? {}))
        if (value !== undefined) text.set(key, String(value));
      return answerTo({ method: "GET", url: `/api/v1${path}?${text}`, body: "" }, query !== undefined);
    },
    post: (path, body) =>
      answerTo({ method: "POST", url: `/api/v1${path}`, body: JSON.stringify(body) }, true),
  };
}
