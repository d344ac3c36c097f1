/** The gateway, with the key of the session: the console's server passes the requests on. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { CONSOLE_PATH, GATEWAY_KEYS_PATH } from "../../../src/console/protocol.ts";
import { HOST_HEADER } from "../../../src/gateway/headers.ts";
import type { CreatedKey, KeyFields, KeyList } from "../../../src/gateway/key.ts";
import { ConsoleError, isOfGateway, jsonOf, request, requestJson } from "./request.ts";

const GATEWAY = `${CONSOLE_PATH}/gateway`;

/** An entry of GET /v1/models: a service that the key may use, or an adapter of one. */
export interface GatewayModel {
  readonly id: string;
  /** Further names of the same model. */
  readonly aliases: readonly string[];
  /** namespace/name */
  readonly service: string;
  readonly mode: string;
  readonly state: "ready" | "starting" | "idle" | "off";
  readonly context_length?: number | null;
}

/** `version` changes with the services: the list is then read again. */
export function gatewayModelsQuery(version: string) {
  return queryOptions({
    queryKey: ["gateway", "models", version],
    queryFn: async ({ signal }) =>
      (await requestJson<{ readonly data: readonly GatewayModel[] }>(`${GATEWAY}/v1/models`, { signal }))
        .data,
    staleTime: 30_000,
    placeholderData: keepPreviousData,
    retry: (count, error) => !(error instanceof ConsoleError && error.status < 500) && count < 2,
  });
}

/** A JSON answer of the engine behind the gateway, and its host if that is known. */
export async function askGateway<T>(
  path: string,
  body: object,
  signal?: AbortSignal,
): Promise<{ readonly answer: T; readonly host: string | undefined }> {
  const response = await request(`${GATEWAY}${path}`, { method: "POST", body, signal });
  return { answer: await jsonOf<T>(response), host: hostOf(response) };
}

/** The host whose engine has answered. */
export function hostOf({ headers }: Response): string | undefined {
  return headers.get(HOST_HEADER) ?? undefined;
}

/** The answer's body is a stream of events. */
export function streamGateway(path: string, body: object, signal: AbortSignal): Promise<Response> {
  return request(`${GATEWAY}${path}`, { method: "POST", body, signal, accept: "text/event-stream" });
}

/** True if the gateway wants a key, or refuses the one that the session has. */
export function needsKey(error: unknown): boolean {
  return error instanceof ConsoleError && error.status === 401 && isOfGateway(error);
}

/** Kept in the sealed session, out of reach of scripts. An empty key removes it. */
export async function setGatewayKey(key: string): Promise<void> {
  await requestJson(`${CONSOLE_PATH}/gateway-key`, { method: "POST", body: { key } });
}

export const gatewayKeysQuery = queryOptions({
  queryKey: ["gateway-keys"],
  queryFn: ({ signal }) => requestJson<KeyList>(GATEWAY_KEYS_PATH, { signal }),
  staleTime: 5_000,
  refetchOnWindowFocus: true,
});

/** The key itself. It cannot be read again. */
export async function createGatewayKey(name: string, fields: KeyFields): Promise<string> {
  const { key } = await requestJson<CreatedKey>(GATEWAY_KEYS_PATH, {
    method: "POST",
    body: { name, ...fields },
  });
  return key;
}

export async function deleteGatewayKey(name: string): Promise<void> {
  await requestJson(`${GATEWAY_KEYS_PATH}/${encodeURIComponent(name)}`, { method: "DELETE" });
}

export async function changeGatewayKey(
  name: string,
  changes: KeyFields & { readonly isDisabled?: boolean; readonly isRevoked?: true },
): Promise<void> {
  await requestJson(`${GATEWAY_KEYS_PATH}/${encodeURIComponent(name)}`, { method: "PATCH", body: changes });
}
