/** All services that the gateway serves, by name, and their list for a caller in the shape of OpenAI's and Anthropic's APIs. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import {
  createPublicNames,
  type MayUse,
  type NameShare,
  serviceNamesOf,
} from "../../src/gateway/public-names.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import type { Authenticated, Authentication, RequestHeaders } from "../keys/authentication.ts";
import { type ServedModel, servedModel, serviceOfSlice } from "./served-model.ts";

export class Models {
  readonly #services = new Map<string, InferenceService>();
  /** Slices by name, of each service. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>();
  readonly #models = new Map<string, ServedModel>();
  readonly #names = createPublicNames();

  /** True if the model has changed or was removed. */
  setService(key: string, service: InferenceService | undefined): boolean {
    if (service === undefined || service.metadata.deletionTimestamp !== undefined) {
      this.#services.delete(key);
      this.#names.remove(key);
    } else {
      this.#services.set(key, service);
      this.#names.set(serviceNamesOf(service));
    }
    return this.#update(key);
  }

  /** Returns the `namespace/name` of the model that has changed. */
  setSlice(
    key: string,
    slice: EndpointSlice | undefined,
    before: EndpointSlice | undefined,
  ): string | undefined {
    const known = slice ?? before;
    const service = known && serviceOfSlice(known);
    if (service === undefined) return undefined;
    const slices = this.#slices.get(service) ?? new Map<string, EndpointSlice>();
    if (slice === undefined) slices.delete(key);
    else slices.set(key, slice);
    if (slices.size === 0) this.#slices.delete(service);
    else this.#slices.set(service, slices);
    return this.#update(service) ? service : undefined;
  }

  get(key: string): ServedModel | undefined {
    return this.#models.get(key);
  }

  /** Host or node of a replica; undefined if it is gone. */
  hostOf(key: string, address: string): string | undefined {
    return this.get(key)?.endpoints.find((endpoint) => endpoint.address === address)?.host;
  }

  list(): Iterable<ServedModel> {
    return this.#models.values();
  }

  sharesOf(name: string, mayUse: MayUse): readonly NameShare[] {
    return this.#names.sharesOf(name, mayUse);
  }

  namesOf(key: string, mayUse?: MayUse): readonly string[] {
    return this.#names.namesOf(key, mayUse);
  }

  #update(key: string): boolean {
    const service = this.#services.get(key);
    if (service === undefined) return this.#models.delete(key);
    this.#models.set(key, servedModel(service, [...(this.#slices.get(key)?.values() ?? [])]));
    return true;
  }
}

export interface ListedModel {
  readonly name: string;
  /** Further names of the same model. */
  readonly aliases: readonly string[];
  readonly model: ServedModel;
}

/** Each model once: a service by its own name if it has that name, else by its full name; an adapter by its name. */
async function listedModels(models: Models, caller: Authenticated): Promise<ListedModel[]> {
  const usable = new Set<string>();
  await Promise.all(
    [...models.list()].map(async ({ key, namespace, name }) => {
      const access = await caller.mayUse({ namespace, name, names: models.namesOf(key) });
      if (access === "allowed") usable.add(key);
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

function renderModel({ name, aliases, model }: ListedModel) {
  const created = Date.parse(model.createdAt);
  return {
    id: name,
    object: "model",
    type: "model",
    display_name: name,
    aliases,
    created: Number.isNaN(created) ? 0 : Math.floor(created / 1_000),
    created_at: model.createdAt,
    owned_by: model.ownedBy,
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
