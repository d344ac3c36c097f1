/** /console/gateway-keys: lists, creates, changes, disables, revokes and deletes keys of the gateway, with the reader's own rights. */
import { randomBytes } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError, remedyOf } from "../../../src/api/errors.ts";
import { prioritySchema, shortText } from "../../../src/api/fields/shared.ts";
import { LABEL_GATEWAY_KEY } from "../../../src/api/group.ts";
import { GATEWAY_KEYS_PATH } from "../../../src/console/protocol.ts";
import {
  type CreatedKey,
  type GatewayKey,
  gatewayKeySchema,
  type KeyList,
  keyLimitsSchema,
  keyScopeSchema,
  switchKey,
  WEIGHT_MAX,
} from "../../../src/gateway/key.ts";
import {
  encodeKey,
  KEY_BYTES,
  KEY_FIELD,
  keyEntries,
  keySecret,
  newKey,
  readKeySecret,
} from "../../../src/gateway/key-secret.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { Secret } from "../../../src/kube/objects.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { parseBody } from "../body.ts";
import type { ConsoleAccess, MountRoutes } from "../reader.ts";
import { unwrapAnswer } from "../refusal.ts";

export interface KeyRoutes {
  /** Namespace of the gateway and its keys. */
  readonly namespace: string;
  readonly isReadOnly: boolean;
  readonly clock: Clock;
}

const TEN_YEARS_SECONDS = 315_360_000;

const fieldsSchema = z.strictObject({
  owner: shortText(253, "Person or team.").optional(),
  scope: z.union([z.literal("all"), keyScopeSchema]).optional(),
  limits: keyLimitsSchema.optional(),
  priority: prioritySchema.optional(),
  weight: z.int().min(1).max(WEIGHT_MAX, `must be at most ${WEIGHT_MAX}`).optional(),
  validForSeconds: z.int().min(60).max(TEN_YEARS_SECONDS, "must be at most ten years").optional(),
});
type Fields = z.output<typeof fieldsSchema>;

const nameSchema = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must have lower-case letters, digits and hyphens only");
const createSchema = fieldsSchema.extend({ name: nameSchema });
const changeSchema = fieldsSchema.extend({
  isDisabled: z.boolean().optional(),
  isRevoked: z.literal(true).optional(),
});

export function mountKeys({ namespace, isReadOnly, clock }: KeyRoutes): MountRoutes {
  return (scope, access) => {
    const config = { calledBy: "call" } as const;
    const keys = keyStore(namespace);
    const forChange = async (request: FastifyRequest): Promise<KubeClient> => {
      if (isReadOnly) throw new MetalbridgeError("ConsoleReadOnly", "the console is in read-only mode");
      return clientOf(access, request);
    };
    scope.get(GATEWAY_KEYS_PATH, { config }, async (request): Promise<KeyList> => {
      const secrets = await keys.list(await clientOf(access, request));
      return { namespace, keys: keyEntries(secrets, clock.nowMs()) };
    });
    scope.post(GATEWAY_KEYS_PATH, { config }, async (request, reply): Promise<CreatedKey> => {
      const { name, ...fields } = parseBody(createSchema, request.body);
      const { text, hash } = newKey(randomBytes(KEY_BYTES), clock.nowMs());
      const { scope: allowed } = fields;
      if (allowed === undefined)
        throw new MetalbridgeError("ConsoleRequestInvalid", "scope: name what the key may use");
      const blank: GatewayKey = {
        hashes: [hash],
        owner: name,
        scope: allowed,
        limits: {},
        priority: "normal",
        weight: 1,
      };
      const key = withFields(blank, fields, clock.nowMs());
      await keys.create(await forChange(request), name, key);
      void reply.code(201);
      return { key: text };
    });
    scope.patch(`${GATEWAY_KEYS_PATH}/:name`, { config }, async (request, reply) => {
      const { name } = parseBody(z.strictObject({ name: nameSchema }), request.params);
      const { isRevoked, isDisabled, ...fields } = parseBody(changeSchema, request.body);
      const nowMs = clock.nowMs();
      await keys.change(await forChange(request), name, (before) => {
        const key = isDisabled === undefined ? before : switchKey(before, { name, isDisabled, nowMs });
        return {
          ...withFields(key, fields, nowMs),
          revokedAt: key.revokedAt ?? (isRevoked === true ? isoSeconds(nowMs) : undefined),
        };
      });
      return reply.code(204).send();
    });
    scope.delete(`${GATEWAY_KEYS_PATH}/:name`, { config }, async (request, reply) => {
      const { name } = parseBody(z.strictObject({ name: nameSchema }), request.params);
      await keys.remove(await forChange(request), name);
      return reply.code(204).send();
    });
  };
}

async function clientOf({ requireReader }: ConsoleAccess, request: FastifyRequest): Promise<KubeClient> {
  return createClient((await requireReader(request)).connection);
}

function withFields(key: GatewayKey, { validForSeconds, ...fields }: Fields, nowMs: number): GatewayKey {
  const expiresAt =
    validForSeconds === undefined ? key.expiresAt : isoSeconds(nowMs + validForSeconds * 1_000);
  return {
    ...key,
    owner: fields.owner ?? key.owner,
    scope: fields.scope ?? key.scope,
    limits: fields.limits ?? key.limits,
    priority: fields.priority ?? key.priority,
    weight: fields.weight ?? key.weight,
    expiresAt,
  };
}

/** Throws ConsoleRequestInvalid, for example for a scope without any name. */
function checked(key: GatewayKey): GatewayKey {
  return parseBody(gatewayKeySchema, key);
}

function keyStore(namespace: string) {
  const find = async (client: KubeClient, name: string): Promise<Secret> => {
    const found = await client.get(SECRETS, { namespace, name });
    const secret = found.ok ? found.value : undefined;
    if (!found.ok && found.error.kind !== "notFound") unwrapAnswer(found);
    if (secret?.metadata.labels?.[LABEL_GATEWAY_KEY] !== "true")
      throw new MetalbridgeError(
        "GatewayKeyNotFound",
        `namespace ${namespace} has no key ${name}`,
        remedyOf("GatewayKeyNotFound", { namespace }),
      );
    return secret;
  };
  return {
    list: async (client: KubeClient) => {
      const labelSelector = `${LABEL_GATEWAY_KEY}=true`;
      return unwrapAnswer(await client.list(SECRETS, { namespace, labelSelector })).items;
    },
    create: async (client: KubeClient, name: string, key: GatewayKey): Promise<void> => {
      const made = await client.create(SECRETS, keySecret(namespace, name, checked(key)));
      if (!made.ok && made.error.kind === "alreadyExists")
        throw new MetalbridgeError("GatewayKeyExists", `namespace ${namespace} already has a Secret ${name}`);
      unwrapAnswer(made);
    },
    /** Fails if another client changes the key at the same time. */
    change: async (
      client: KubeClient,
      name: string,
      change: (key: GatewayKey) => GatewayKey,
    ): Promise<void> => {
      const secret = await find(client, name);
      const read = readKeySecret(secret);
      if (read.at === "invalid")
        throw new MetalbridgeError(
          "GatewayKeyInvalid",
          `the Secret ${name} is not a valid key: ${read.problem}`,
          remedyOf("GatewayKeyInvalid", { name: `${name} -n ${namespace}` }),
        );
      const { uid, resourceVersion } = secret.metadata;
      const patched = await client.jsonPatch(SECRETS, { namespace, name }, [
        { op: "test", path: "/metadata/uid", value: uid },
        { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
        { op: "replace", path: `/data/${KEY_FIELD}`, value: encodeKey(checked(change(read.key))) },
      ]);
      unwrapAnswer(patched);
    },
    remove: async (client: KubeClient, name: string): Promise<void> => {
      const { uid } = (await find(client, name)).metadata;
      unwrapAnswer(await client.remove(SECRETS, { namespace, name }, { uid }));
    },
  };
}
