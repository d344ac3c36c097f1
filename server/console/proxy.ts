/** /console/k8s/…: requests of the console's pages to the API server, with the reader's own credentials. */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_GATEWAY_KEY } from "../../src/api/group.ts";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";
import { encodeKey, KEY_FIELD, readKeySecret } from "../../src/gateway/key-secret.ts";
import type { RawRequest } from "../../src/kube/client/connect.ts";
import { readApiBody } from "../../src/kube/client/transport.ts";
import type { Secret } from "../../src/kube/objects.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import { parseBody, pathBelow } from "./body.ts";
import type { ConsoleAccess } from "./reader.ts";
import { unwrapAnswer } from "./refusal.ts";
import { type ServedRequest, servedRequest } from "./served-kinds.ts";

const PREFIX = `${CONSOLE_PATH}/k8s`;
/** The API server's own limit for a request. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
const MAX_SECRETS_BYTES = 16 * 1024 * 1024;
/** Until the headers arrive. */
const HEAD_MS = 35_000;
const CONTENT_TYPES = new Set([
  ...["application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json"],
  ...["application/strategic-merge-patch+json", "application/apply-patch+yaml"],
]);
const PASSED_HEADERS = ["content-type", "retry-after", "warning"] as const;
/** Shown instead of a hash; no key has it. */
const HIDDEN_HASH = "0".repeat(64);

/** Only `spec.unschedulable`: cordon and uncordon. */
const cordonSchema = z.strictObject({
  spec: z.strictObject({ unschedulable: z.boolean().nullable() }),
});
const keySecretSchema = z.looseObject({
  metadata: z.looseObject({ labels: z.looseObject({ [LABEL_GATEWAY_KEY]: z.literal("true") }) }),
});

export function mountProxy(
  scope: FastifyInstance,
  { requireReader }: ConsoleAccess,
  { isReadOnly }: { readonly isReadOnly: boolean },
): void {
  scope.route({
    method: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    url: `${PREFIX}/*`,
    bodyLimit: MAX_BODY_BYTES,
    exposeHeadRoute: false,
    config: { calledBy: "call" },
    handler: async (request, reply) => {
      const served = servedRequest(request.method, pathBelow(PREFIX, request));
      if (isReadOnly && served.isChange)
        throw new MetalbridgeError("ConsoleReadOnly", "the console is in read-only mode");
      const sent = bodyOf(request, served);
      const { connection } = await requireReader(request);
      const left = new AbortController();
      reply.raw.once("close", () => left.abort());
      const answer = await connection.stream({
        method: request.method as RawRequest["method"],
        path: served.path,
        ...sent,
        timeoutMs: HEAD_MS,
        isShort: true,
        signal: left.signal,
        // A rejected credential is answered like any call without a session.
        acceptsStatus: (status) => status !== 401,
      });
      return pass(served, unwrapAnswer(answer), reply);
    },
  });
}

/** Throws ConsoleRequestInvalid. */
function bodyOf(
  { body, headers }: FastifyRequest,
  { resource, verb }: ServedRequest,
): Pick<RawRequest, "body" | "contentType"> {
  if (typeof body !== "string" || body === "") return {};
  // The API server reads the options from it instead of the query, so that a dry run would delete.
  if (verb === "delete")
    throw new MetalbridgeError("ConsoleRequestInvalid", "a DELETE with a body is not passed on");
  const contentType = (headers["content-type"] ?? "application/json").split(";")[0]?.trim() ?? "";
  if (!CONTENT_TYPES.has(contentType))
    throw new MetalbridgeError("ConsoleRequestInvalid", `the content type ${contentType} is not passed on`);
  const schema = resource === "nodes" ? cordonSchema : resource === "secrets" ? keySecretSchema : undefined;
  if (schema === undefined || verb === "get") return { body, contentType };
  // What was checked is what is sent: a repeated key of JSON could mean another thing to the API server.
  return { body: JSON.stringify(parseBody(schema, body)), contentType };
}

async function pass(
  { resource }: ServedRequest,
  answer: IncomingMessage,
  reply: FastifyReply,
): Promise<FastifyReply> {
  reply.code(answer.statusCode ?? 502);
  for (const name of PASSED_HEADERS) {
    const value = answer.headers[name];
    if (value !== undefined) reply.header(name, value);
  }
  reply.header("x-content-type-options", "nosniff");
  if (resource !== "secrets") return reply.send(answer);
  const body = parseJson(await readApiBody(answer, MAX_SECRETS_BYTES));
  return reply.type("application/json").send(withoutSecrets(body));
}

/** Secrets and lists of them, with the fields that pages show and without any hash or value. Other objects are kept. */
function withoutSecrets(body: unknown): unknown {
  if (typeof body !== "object" || body === null) return undefined;
  if ("items" in body && Array.isArray(body.items))
    return { ...body, items: body.items.map((item) => redact(item as Secret)) };
  return "kind" in body && body.kind === "Status" ? body : redact(body as Secret);
}

function redact(secret: Secret): object {
  const { name, namespace, uid, resourceVersion, creationTimestamp, labels } = secret.metadata;
  const metadata = { name, namespace, uid, resourceVersion, creationTimestamp, labels };
  const read = readKeySecret(secret);
  const data: Record<string, string> = {};
  if (read.at === "valid") {
    const hashes = read.key.hashes.map((hash) => ({ ...hash, sha256: HIDDEN_HASH }));
    data[KEY_FIELD] = encodeKey({ ...read.key, hashes });
  }
  return { apiVersion: "v1", kind: "Secret", metadata, type: secret.type, data };
}
