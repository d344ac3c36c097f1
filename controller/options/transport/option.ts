/** The option: sealed transport. It keeps the certificates of gateways and relays, and follows the relays. */
import { z } from "zod";
import { LABEL_SERVICE_NAME, NAMESPACE_SYSTEM, SECRET_TRANSPORT } from "../../../src/api/group.ts";
import { keyOf } from "../../../src/api/names.ts";
import { ENDPOINT_SLICES, SECRETS } from "../../../src/kube/kinds.ts";
import type { EndpointSlice, Secret } from "../../../src/kube/objects.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { ApiCallFailed } from "../../frame/apply/failure.ts";
import type { LeaderPart, LeaderPorts, Option } from "../../frame/option.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import { clientFingerprints, planClientCertificates } from "./certificates.ts";
import { createRelayPorts } from "./relay-ports.ts";

export const transportConfigSchema = z.strictObject({
  transport: z
    .enum(["Sealed", "Direct"])
    .default("Direct")
    .describe(
      "Transport to hosts of services that do not set spec.endpoint.transport: Sealed encrypts and authenticates it, Direct does neither.",
    ),
  relayService: z
    .string()
    .min(1)
    .max(63)
    .optional()
    .describe(
      "Service of the relays in the namespace of the controller. Cluster Services of sealed services lead there. Absent: sealed services are reached through the gateway only.",
    ),
});

type TransportConfig = z.output<typeof transportConfigSchema>;

export const transport: Option<typeof transportConfigSchema.shape> = {
  shape: transportConfigSchema.shape,
  start: (config) => ({ queue: "transport", lead: (ports) => joinTransport(config, ports) }),
};

const CERTIFICATES = "certificates";
const DAY_MS = 86_400_000;

function joinTransport(
  { transport: byDefault, relayService }: TransportConfig,
  ports: LeaderPorts,
): LeaderPart {
  const { watches, services, enqueue } = ports;
  let isKept = false;
  let clients: readonly string[] = [];
  let relays: readonly string[] = [];
  const enqueueSealed = () => {
    for (const key of sealedServices(watches)) services.enqueue(key);
  };
  // Nothing waits for it: without its right, services that are not sealed need no Secret.
  ports.startReflector<Secret>({
    ...ports,
    kind: SECRETS,
    namespace: NAMESPACE_SYSTEM,
    fieldSelector: `metadata.name=${SECRET_TRANSPORT}`,
    onChange: (_, secret) => {
      const now = clientFingerprints(textsIn(secret));
      enqueue(CERTIFICATES);
      // Without the Secret, hosts continue to serve the clients that they know.
      if (now.length === 0) isKept = false;
      if (now.length === 0 || isDeepEqual(now, clients)) return;
      clients = now;
      enqueueSealed();
    },
  });
  const relaySlices =
    relayService === undefined
      ? undefined
      : ports.startReflector<EndpointSlice>({
          ...ports,
          kind: ENDPOINT_SLICES,
          namespace: NAMESPACE_SYSTEM,
          labelSelector: `${LABEL_SERVICE_NAME}=${relayService}`,
          onChange: () => {
            const now = readyAddresses(relaySlices?.list() ?? []);
            if (isDeepEqual(now, relays)) return;
            relays = now;
            enqueueSealed();
          },
        });
  const { portOf } = createRelayPorts(() => watches.relaySlices.list(), ports.clock.monotonicMs);
  return {
    watches: relaySlices === undefined ? [] : [relaySlices],
    keys: () => [CERTIFICATES],
    // The first sealed service begins the rotation.
    handlers: { onService: () => (isKept ? undefined : enqueue(CERTIFICATES)) },
    pass: async () => {
      // A relay waits for it.
      const isNeeded =
        byDefault === "Sealed" || relayService !== undefined || sealedServices(watches).size > 0;
      const recheck = isNeeded ? await keepCertificates(ports) : undefined;
      isKept = isNeeded;
      return recheck;
    },
    transport: {
      byDefault,
      clients: () => clients,
      relays: () => (relayService === undefined ? undefined : relays),
      portOf,
    },
  };
}

/** `namespace/name` of the services that are sealed, or have a sealed replica. */
function sealedServices({ services, replicas }: Pick<Watches, "services" | "replicas">): ReadonlySet<string> {
  const asked = services.list().filter(({ spec }) => spec.endpoint?.transport === "Sealed");
  const running = replicas.list().filter(({ spec }) => spec.template.transport === "Sealed");
  return new Set([
    ...asked.map(({ metadata }) => keyOf(metadata)),
    ...running.map(({ metadata, spec }) =>
      keyOf({ namespace: metadata.namespace, name: spec.template.serviceName }),
    ),
  ]);
}

interface CertificatePorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
}

/** Throws if only a retry can help. */
async function keepCertificates({ client, clock, log }: CertificatePorts): Promise<Recheck> {
  const secret = { name: SECRET_TRANSPORT, namespace: NAMESPACE_SYSTEM };
  const found = await client.get(SECRETS, secret);
  if (!found.ok && found.error.kind !== "notFound")
    throw new ApiCallFailed(`read Secret ${secret.name}`, found.error);
  const current = found.ok ? found.value : undefined;
  const nowMs = clock.nowMs();
  const { certificates, because, dueMs } = planClientCertificates(textsIn(current), nowMs);
  if (because !== undefined) {
    const data = Object.fromEntries(
      Object.entries(certificates).map(([file, text]) => [file, Buffer.from(text).toString("base64")]),
    );
    const object = {
      metadata: current?.metadata ?? secret,
      type: current?.type ?? "kubernetes.io/tls",
      data,
    };
    const written = await (current === undefined
      ? client.create(SECRETS, object)
      : client.update(SECRETS, object));
    if (!written.ok) throw new ApiCallFailed(`write Secret ${secret.name}`, written.error);
    log.info({ secret: secret.name }, `certificates of gateways and relays: ${because}`);
  }
  return { recheckAfterMs: Math.min(DAY_MS, Math.max(1_000, dueMs - nowMs)) };
}

function textsIn(secret: Secret | undefined): Readonly<Record<string, string>> {
  const data = Object.entries(secret?.data ?? {});
  return Object.fromEntries(data.map(([file, text]) => [file, Buffer.from(text, "base64").toString("utf8")]));
}

function readyAddresses(slices: readonly EndpointSlice[]): readonly string[] {
  const ready = slices
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false);
  return [...new Set(ready.flatMap(({ addresses }) => addresses))].sort();
}
