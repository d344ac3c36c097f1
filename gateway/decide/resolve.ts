/** Finds the service for a request among those that its caller may use. */
import type { Authenticated } from "../keys/authentication.ts";
import type { Models } from "../models/models.ts";
import type { ServedModel } from "../models/served-model.ts";
import { type Call, shown } from "./call.ts";
import type { Refusal } from "./dialect.ts";

/** Services that the caller may use. Decided immediately for a key; for a Kubernetes user, by a review. */
export interface Permissions {
  readonly mayUse: (key: string) => boolean;
  /** Reviews the services for which `mayUse` is undecided. False if there were none. */
  readonly review: () => Promise<boolean>;
  /** True if a review failed. */
  readonly isUnavailable: () => boolean;
}

export function permissionsOf(models: Models, caller: Authenticated): Permissions {
  const known = new Map<string, boolean>();
  const asked = new Set<string>();
  let isUnavailable = false;
  return {
    mayUse: (key) => {
      const access = known.get(key);
      if (access === undefined) asked.add(key);
      return access ?? true;
    },
    review: async () => {
      const keys = [...asked];
      asked.clear();
      await Promise.all(
        keys.map(async (key) => {
          const model = models.get(key);
          const access =
            model === undefined
              ? "forbidden"
              : await caller.mayUse({
                  namespace: model.namespace,
                  name: model.name,
                  names: models.namesOf(key),
                });
          if (access === "unavailable") isUnavailable = true;
          known.set(key, access === "allowed");
        }),
      );
      return keys.length > 0;
    },
    isUnavailable: () => isUnavailable,
  };
}

/**
 * The service of a call. If services share a name, one is picked by weight, preferably a ready one. Services that the caller may
 * not use are treated as missing, so nothing about other tenants leaks.
 */
export async function resolveServedModel(
  call: Call,
  models: Models,
  permissions: Permissions,
  random: () => number,
): Promise<ServedModel | Refusal> {
  const find = () => findShares(call, models, permissions);
  let shares = find();
  while (await permissions.review()) shares = find();
  const found = shares.flatMap(({ key, weight }) => {
    const model = models.get(key);
    return model === undefined ? [] : [{ model, weight }];
  });
  const ready = found.filter(({ model }) => model.state === "ready");
  const chosen = pickByWeight(ready.length > 0 ? ready : found, random());
  if (chosen !== undefined) return chosen;
  if (permissions.isUnavailable()) {
    const message = "The API server cannot review your token at the moment. Retry in a few seconds.";
    return { code: "gateway_starting", message, retryAfterSeconds: 2 };
  }
  const { target } = call;
  const what =
    target.by === "model" ? `model ${shown(target.model)}` : `service ${target.namespace}/${target.name}`;
  return {
    code: "model_not_found",
    message: `There is no ${what} that your key may use. GET /v1/models lists the models.`,
  };
}

function findShares({ target }: Call, models: Models, { mayUse }: Permissions) {
  if (target.by === "model") return models.sharesOf(target.model, mayUse);
  const key = `${target.namespace}/${target.name}`;
  return models.get(key) !== undefined && mayUse(key) ? [{ key, weight: 1 }] : [];
}

/** `random`: from 0 to 1. */
function pickByWeight(
  options: readonly { readonly model: ServedModel; readonly weight: number }[],
  random: number,
): ServedModel | undefined {
  let left = random * options.reduce((sum, { weight }) => sum + weight, 0);
  for (const { model, weight } of options) {
    left -= weight;
    if (left < 0) return model;
  }
  return options.at(-1)?.model;
}
