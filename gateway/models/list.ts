/** The list of models that a caller may use, in a shape that clients of OpenAI's and of Anthropic's API read. */
import type { Authenticated, Authentication, RequestHeaders } from "../keys/authentication.ts";
import type { Models } from "./models.ts";
import type { ServedModel } from "./served-model.ts";

export interface ListedModel {
  readonly name: string;
  /** Further names of the same model. */
  readonly aliases: readonly string[];
  readonly model: ServedModel;
}

/** The models of a caller, each once: a service by its own name if it has that, else by its full name; an adapter by its name. */
export async function listedModels(models: Models, caller: Authenticated): Promise<ListedModel[]> {
  const usable = new Set<string>();
  await Promise.all(
    [...models.list()].map(async ({ key, namespace, name }) => {
      const answer = await caller.mayUse({ namespace, name, names: models.namesOf(key) });
      if (answer === "allowed") usable.add(key);
    }),
  );
  const mayUse = (key: string): boolean => usable.has(key);
  return [...usable].toSorted().flatMap((key) => {
    const model = models.get(key);
    if (model === undefined) return [];
    const names = models.namesOf(key, mayUse);
    const adapters = names.filter((name) => model.adapters.has(name) && name !== model.name);
    const own = names.filter((name) => !adapters.includes(name));
    const name = own.includes(model.name) ? model.name : key;
    const service = { name, aliases: own.filter((other) => other !== name), model };
    return [service, ...adapters.map((adapter) => ({ name: adapter, aliases: [], model }))];
  });
}

export function renderModels(listed: readonly ListedModel[]): Readonly<Record<string, unknown>> {
  const data = listed.map(renderModel);
  return {
    object: "list",
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}

export function renderModel({ name, aliases, model }: ListedModel) {
  const created = Date.parse(model.createdAt);
  return {
    id: name,
    object: "model",
    type: "model",
    display_name: name,
    aliases,
    created: Number.isNaN(created) ? 0 : Math.floor(created / 1_000),
    created_at: model.createdAt,
    owned_by: model.namespace,
    mode: model.mode,
    context_length: model.contextLength,
    ready: model.state === "ready",
    state: model.state,
    service: model.key,
  };
}

export interface ModelListing {
  readonly models: Models;
  readonly authenticate: (headers: RequestHeaders) => Promise<Authentication>;
}

type ListResult =
  | { readonly at: "listed"; readonly body: Readonly<Record<string, unknown>> }
  | { readonly at: "unknown" }
  | { readonly at: "refused"; readonly caller: Extract<Authentication, { at: "refused" }> };

/** `service`: only that one. `model`: only the entry of that name, which may be an alias. */
export async function listModels(
  { models, authenticate }: ModelListing,
  headers: RequestHeaders,
  { service, model }: { readonly service?: string | undefined; readonly model?: string | undefined },
): Promise<ListResult> {
  const authentication = await authenticate(headers);
  if (authentication.at === "refused") return { at: "refused", caller: authentication };
  const listed = (await listedModels(models, authentication.caller)).filter(
    (one) => service === undefined || one.model.key === service,
  );
  if (model === undefined) return { at: "listed", body: renderModels(listed) };
  const found = listed.find(({ name, aliases }) => name === model || aliases.includes(model));
  return found === undefined
    ? { at: "unknown" }
    : { at: "listed", body: { ...renderModel(found), id: model } };
}
