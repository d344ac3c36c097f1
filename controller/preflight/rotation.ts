/** Renews the certificate of the webhook in its Secret, and publishes its authority to the API server. Only the leader does so. */

import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { SECRETS, VALIDATING_WEBHOOKS } from "../../src/kube/kinds.ts";
import type { Secret, ValidatingWebhooks } from "../../src/kube/objects.ts";
import { createQueue } from "../../src/kube/queue.ts";
import type { ApiFailure, KubeClient, ObjectRef, Reflector } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { ApiCallFailed } from "../service/apply/failure.ts";
import { type Certificates, planCertificates } from "./certificate.ts";

/** Name of the webhook configuration, the Service and the Secret in the chart. */
export const WEBHOOK_NAME = "metalbridge-preflight";

export interface RotationOptions {
  readonly connection: KubeConnection;
  /** Refuses writes once this process is no longer the leader. */
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly secret: ObjectRef;
  readonly names: readonly string[];
  readonly lifetimeMs: number;
}

const DAY_MS = 86_400_000;

/** Runs until `signal` is aborted. */
export function keepCertificate(options: RotationOptions): void {
  const { clock, log, signal, secret } = options;
  const queue = createQueue<string>({
    clock,
    log: log.child({ queue: "preflight" }),
    signal,
    reconcile: () => pass(options, webhooks),
  });
  const enqueue = () => queue.enqueue(WEBHOOK_NAME);
  const fieldSelector = `metadata.name=${WEBHOOK_NAME}`;
  const webhooks = startReflector({
    ...options,
    kind: VALIDATING_WEBHOOKS,
    fieldSelector,
    onChange: enqueue,
  });
  startReflector({
    ...options,
    kind: SECRETS,
    namespace: secret.namespace ?? "",
    onChange: enqueue,
    fieldSelector: `metadata.name=${secret.name}`,
  });
  enqueue();
}

async function pass(options: RotationOptions, webhooks: Reflector<ValidatingWebhooks>) {
  const { client, clock, log, secret, names, lifetimeMs } = options;
  const found = await client.get(SECRETS, secret);
  if (!found.ok && found.error.kind !== "notFound") throw failed("read the Secret", found.error);
  const current = found.ok ? found.value : undefined;
  const nowMs = clock.nowMs();
  const { certificates, because, dueMs } = planCertificates(
    certificatesIn(current),
    names,
    lifetimeMs,
    nowMs,
  );
  if (because !== undefined) {
    await write(client, secret, current, certificates);
    log.info({ secret: secret.name }, `preflight: ${because}`);
  }
  await trust(client, webhooks.get(WEBHOOK_NAME), base64(certificates["ca.crt"]));
  return { recheckAfterMs: Math.min(DAY_MS, Math.max(1_000, dueMs - nowMs)) };
}

async function write(
  client: KubeClient,
  { name, namespace }: ObjectRef,
  current: Secret | undefined,
  certificates: Certificates,
): Promise<void> {
  const data = Object.fromEntries(
    Object.entries(certificates).map(([file, text]) => [file, base64(text as string)]),
  );
  const metadata = current?.metadata ?? { name, namespace };
  const object = { metadata, type: current?.type ?? "kubernetes.io/tls", data };
  const result = await (current === undefined
    ? client.create(SECRETS, object)
    : client.update(SECRETS, object));
  if (!result.ok) throw failed("write the Secret", result.error);
}

/** Writes only the missing caBundle, because the installer owns the other fields of the configuration. */
async function trust(
  client: KubeClient,
  configuration: ValidatingWebhooks | undefined,
  caBundle: string,
): Promise<void> {
  const operations = (configuration?.webhooks ?? []).flatMap(({ name, clientConfig }, index) =>
    clientConfig.caBundle === caBundle
      ? []
      : [
          { op: "test", path: `/webhooks/${index}/name`, value: name } as const,
          { op: "add", path: `/webhooks/${index}/clientConfig/caBundle`, value: caBundle } as const,
        ],
  );
  if (operations.length === 0) return;
  const result = await client.jsonPatch(VALIDATING_WEBHOOKS, { name: WEBHOOK_NAME }, operations);
  if (!result.ok && result.error.kind !== "notFound") throw failed("write the caBundle", result.error);
}

/** Decodes the data of a Secret. */
export function certificatesIn(secret: Secret | undefined): Partial<Certificates> {
  return Object.fromEntries(
    Object.entries(secret?.data ?? {}).map(([file, text]) => [
      file,
      Buffer.from(text, "base64").toString("utf8"),
    ]),
  );
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}

function failed(action: string, error: ApiFailure): ApiCallFailed {
  return new ApiCallFailed(`${action} of the preflight webhook`, error);
}
