/** Messages of endpoint discovery, envoy.service.discovery.v3 and envoy.config.endpoint.v3. Pure. */

import { METADATA_NAMESPACES, SEALED } from "../names.ts";
import type { EnvoyCluster, EnvoyEndpoint } from "../types.ts";
import { bytesField, numberField, readFields } from "./wire.ts";

export const ENDPOINTS_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

const HEALTHY = 1;
const UNHEALTHY = 2;

export interface DiscoveryRequest {
  readonly type: string;
  readonly names: readonly string[];
  readonly nonce: string;
  /** Why Envoy rejected the response with this nonce. */
  readonly error?: string;
}

/** Throws RangeError for damaged bytes. */
export function decodeRequest(message: Buffer): DiscoveryRequest {
  const names: string[] = [];
  let [type, nonce] = ["", ""];
  let error: string | undefined;
  for (const { field, bytes } of readFields(message)) {
    if (field === 3) names.push(bytes.toString());
    else if (field === 4) type = bytes.toString();
    else if (field === 5) nonce = bytes.toString();
    else if (field === 6) error = messageOf(bytes);
  }
  return { type, names, nonce, error };
}

function messageOf(status: Buffer): string {
  for (const { field, bytes } of readFields(status)) if (field === 2) return bytes.toString();
  return "unknown";
}

export function encodeResponse(assignments: readonly Buffer[], nonce: string): Buffer {
  return Buffer.concat([
    bytesField(1, nonce),
    ...assignments.map((assignment) =>
      bytesField(2, Buffer.concat([bytesField(1, ENDPOINTS_TYPE), bytesField(2, assignment)])),
    ),
    bytesField(4, ENDPOINTS_TYPE),
    bytesField(5, nonce),
  ]);
}

/** The endpoints of one cluster, under the name by which it asks for them. */
export function encodeLoadAssignment({ name, endpoints }: Pick<EnvoyCluster, "name" | "endpoints">): Buffer {
  return Buffer.concat([bytesField(1, name), bytesField(2, Buffer.concat(endpoints.map(encodeEndpoint)))]);
}

function encodeEndpoint(one: EnvoyEndpoint): Buffer {
  const { address, port, weight = 1, host, isHealthy, fingerprints } = one;
  const metadata = [
    ...(host === undefined ? [] : [encodeMetadata(METADATA_NAMESPACES.endpoint, "host", host)]),
    ...(fingerprints === undefined
      ? []
      : [encodeMetadata(METADATA_NAMESPACES.transport, SEALED.key, SEALED.value)]),
  ];
  const socketAddress = Buffer.concat([bytesField(2, address), numberField(3, port)]);
  const endpoint = bytesField(1, bytesField(1, socketAddress));
  const fields = [
    bytesField(1, endpoint),
    numberField(2, isHealthy ? HEALTHY : UNHEALTHY),
    ...(metadata.length === 0 ? [] : [bytesField(3, Buffer.concat(metadata))]),
    bytesField(4, numberField(1, weight)),
  ];
  return bytesField(2, Buffer.concat(fields));
}

/** One text in the endpoint's metadata: core.v3.Metadata with a google.protobuf.Struct. */
function encodeMetadata(namespace: string, key: string, value: string): Buffer {
  return entry(namespace, entry(key, bytesField(3, value)));
}

/** A map with one entry, as field 1 of its message. */
function entry(key: string, value: Buffer): Buffer {
  return bytesField(1, Buffer.concat([bytesField(1, key), bytesField(2, value)]));
}
