/** Reads the queues of requests from all gateways: those in pods through the API server's proxy, or those with given addresses. */
import {
  GATEWAY_HEALTH_PORT,
  REQUEST_QUEUES_PATH,
  type RequestQueues,
  requestQueuesSchema,
  sumRequestQueues,
} from "../src/gateway/request-queues.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import { PODS } from "../src/kube/kinds.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { parseJson } from "../src/util/parse-json.ts";

export interface GatewayPlaces {
  /** Base URLs of health ports. Empty: the pods of the Helm chart. */
  readonly urls: readonly URL[];
  readonly namespace: string;
}

/** The sum over the gateways that answered. */
export interface ReadQueues extends RequestQueues {
  readonly gateways: number;
  readonly answered: number;
  /** Why a gateway is missing in the sum. */
  readonly problem?: string;
}

const TIMEOUT_MS = 3_000;
const GATEWAY_PODS = "app.kubernetes.io/name=metalbridge,app.kubernetes.io/component=gateway";

/** Never rejects. */
export async function readRequestQueues(
  connection: KubeConnection,
  { urls, namespace }: GatewayPlaces,
  signal: AbortSignal,
): Promise<ReadQueues> {
  try {
    const reads =
      urls.length > 0
        ? urls.map((url) => () => readUrl(url, signal))
        : (await gatewayPods(connection, namespace)).map(
            (name) => () => readPod(connection, { name, namespace }, signal),
          );
    const results = await Promise.allSettled(reads.map((read) => read()));
    const reports = results.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const [problem] = results.flatMap((one) => (one.status === "rejected" ? [errorMessage(one.reason)] : []));
    return {
      ...{ gateways: results.length, answered: reports.length, ...sumRequestQueues(reports) },
      ...(problem !== undefined && { problem }),
    };
  } catch (error) {
    return { gateways: 0, answered: 0, queues: [], problem: errorMessage(error) };
  }
}

async function gatewayPods(connection: KubeConnection, namespace: string): Promise<readonly string[]> {
  const pods = await createClient(connection).list(PODS, { namespace, labelSelector: GATEWAY_PODS });
  if (!pods.ok) throw explainFailure(pods.error);
  return pods.value.items
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => metadata.name);
}

async function readPod(
  connection: KubeConnection,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  signal: AbortSignal,
): Promise<RequestQueues> {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}:${GATEWAY_HEALTH_PORT}/proxy${REQUEST_QUEUES_PATH}`;
  const answer = await connection.request({ method: "GET", path, timeoutMs: TIMEOUT_MS, signal });
  if (!answer.ok) throw new Error(`pod ${name}: ${answer.error.message}`);
  return parseQueues(`pod ${name}`, answer.value);
}

async function readUrl(url: URL, signal: AbortSignal): Promise<RequestQueues> {
  const from = url.origin;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const response = await fetch(`${from}${REQUEST_QUEUES_PATH}`, { signal: limit }).catch((error: unknown) => {
    throw new Error(`${from}: ${errorMessage(error)}`, { cause: error });
  });
  if (!response.ok) throw new Error(`${from}: status ${response.status}`);
  return parseQueues(from, await response.text());
}

function parseQueues(from: string, text: string): RequestQueues {
  const parsed = requestQueuesSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw new Error(`${from}: the answer has no queues; check the address, and the version of the gateway`);
}
