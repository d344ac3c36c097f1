/** Renews the certificate of a server in its Secret, and publishes its authority to the API server. Only the leader does so. */

import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import type { Secret } from "../../../src/kube/objects.ts";
import { createQueue } from "../../../src/kube/queue.ts";
import type {
  ApiFailure,
  JsonPatchOp,
  Kind,
  KubeClient,
  KubeObject,
  ObjectRef,
  Reflector,
} from "../../../src/kube/types.ts";
import { startReflector } from "../../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { ApiCallFailed } from "../apply/failure.ts";
import { type Certificates, planCertificates } from "./certificate.ts";

/** The object through which API servers know the authority. The installer owns its other fields. */
export interface Published<T extends KubeObject> {
  readonly kind: Kind<T>;
  readonly name: string;
  /** Operations that write a missing caBundle; empty if the object has it, or belongs to another server. */
  readonly trust: (object: T, caBundle: string) => readonly JsonPatchOp[];
}

export interface RotationOptions<T extends KubeObject> {
  readonly published: Published<T>;
  /** Called for each change of the published object. */
  readonly onPublished?: (object: T | undefined) => void;
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
export function keepCertificate<T extends KubeObject>(options: RotationOptions<T>): void {
  const { clock, log, signal, secret, published, onPublished } = options;
  const queue = createQueue<string>({
    clock,
    log: log.child({ queue: secret.name }),
    signal,
    reconcile: () => pass(options, objects),
  });
  const enqueue = () => queue.enqueue(secret.name);
  const objects = startReflector<T>({
    ...options,
    kind: published.kind,
    fieldSelector: `metadata.name=${published.name}`,
    onChange: (_, object) => {
      onPublished?.(object);
      enqueue();
    },
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

async function pass<T extends KubeObject>(options: RotationOptions<T>, objects: Reflector<T>) {
  const { client, clock, log, secret, names, lifetimeMs, published } = options;
  const found = await client.get(SECRETS, secret);
  if (!found.ok && found.error.kind !== "notFound") throw failed(`read Secret ${secret.name}`, found.error);
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
    log.info({ secret: secret.name }, `issued: ${because}`);
  }
  const object = objects.get(published.name);
  const operations = object === undefined ? [] : published.trust(object, base64(certificates["ca.crt"]));
  if (operations.length > 0) {
    const result = await client.jsonPatch(published.kind, { name: published.name }, operations);
    if (!result.ok && result.error.kind !== "notFound")
      throw failed(`write the caBundle of ${published.kind.kind} ${published.name}`, result.error);
  }
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
  if (!result.ok) throw failed(`write Secret ${name}`, result.error);
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
  return new ApiCallFailed(action, error);
}
