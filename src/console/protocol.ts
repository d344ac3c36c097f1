/** The console's own API: paths, the session, the stream of topics. Everything else is the Kubernetes API or the density API. */
import type { FarmRow, HostRow, ModelRow, QueueRow, ServiceRow } from "./rows.ts";

export const CONSOLE_PATH = "/console";

/**
 * Sent with every request but page loads. A page of another origin cannot set it without a preflight, which the server
 * refuses: together with the SameSite cookie it stops cross-site requests.
 */
export const CONSOLE_HEADER = "x-metalbridge-console";

/** GET /console/session. 401 without a session: `SignIn` says how to get one. */
export interface Session {
  readonly user: string;
  /** Namespace of the reader's credential, if it has one. */
  readonly namespace?: string | undefined;
  /** The server is `metalbridge console`: it sees no more than the reader. */
  readonly isLocal: boolean;
  readonly isReadOnly: boolean;
  /** False if no gateway is configured: the playground is not available. */
  readonly hasGateway: boolean;
  /** URL that clients outside use, for snippets. */
  readonly gatewayUrl: string;
  readonly version: string;
  /** ISO time at which the token expires, if it states one. */
  readonly expiresAt?: string | undefined;
}

/** Body of a 401. */
export interface SignIn {
  readonly code: "SignInNeeded";
  readonly message: string;
  /** token: paste one. oidc: GET /console/sign-in. code: open the address that `metalbridge console` printed. */
  readonly by: "token" | "oidc" | "code";
}

/** Body of any other refusal of the console's own API. */
export interface ApiRefusal {
  readonly code: string;
  readonly message: string;
  readonly remedy?: string;
}

/** One question of POST /console/rights: `{questions: AccessQuestion[]}`, at most 64; answered by `{allowed: boolean[]}`. */
export interface AccessQuestion {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** Keys of the gateway: `GET` lists them, `POST` creates one, `PATCH <path>/<name>` changes, disables, enables or revokes it, `DELETE <path>/<name>` deletes it (src/gateway/key.ts). */
export const GATEWAY_KEYS_PATH = `${CONSOLE_PATH}/gateway-keys`;

/** `POST {namespace, name, revision?, isDryRun?}` restores the spec of an earlier revision of a service. */
export const UNDO_PATH = `${CONSOLE_PATH}/undo`;

export interface UndoResponse {
  readonly revision: number;
  readonly hash: string;
  /** Such as `contextSize 4096 -> 8192`. Empty if the service already has that spec. */
  readonly changes: readonly string[];
  /** Fields that are not restored. */
  readonly notes: readonly string[];
}

/** Topics with one row type each. */
export interface ListTopics {
  readonly hosts: HostRow;
  readonly services: ServiceRow;
  readonly models: ModelRow;
  readonly farm: FarmRow;
  readonly queues: QueueRow;
}

/**
 * Topics of one object, whose rows are whole objects of the API (without managedFields):
 * `service/NAMESPACE/NAME`: `service`, `replica/NAME`, `pod/NAME`.
 * `host/NAME`: `host`, `replica/NAMESPACE/NAME`. `node/NAME`: `node`, `pod/NAMESPACE/NAME`.
 * `model/NAMESPACE/NAME`: `model`.
 */
export type Topic =
  | keyof ListTopics
  | `service/${string}/${string}`
  | `host/${string}`
  | `node/${string}`
  | `model/${string}/${string}`;

/**
 * Events of GET /console/stream?topics=hosts,services (server-sent; `data` is JSON). The first is `hello`; POST
 * /console/stream/<id> with `{topics: Topic[]}` then replaces the topics of the stream. A 404 means that the stream is on
 * another server: open a new one with the topics. `beat` follows every 15 s.
 */
export type StreamEvent =
  | { readonly event: "hello"; readonly data: { readonly id: string; readonly nowMs: number } }
  | { readonly event: "beat"; readonly data: { readonly nowMs: number } }
  /** The API server has not answered the console's server since then; undefined once it answers again. */
  | { readonly event: "cluster"; readonly data: { readonly awaySinceMs?: number | undefined } }
  | { readonly event: "rows"; readonly data: RowsEvent }
  | { readonly event: "refused"; readonly data: ApiRefusal & { readonly topic: Topic } };

export interface RowsEvent {
  readonly topic: Topic;
  /** The rows are all there are: those received before are gone. */
  readonly isAll?: boolean;
  /** More rows of this state follow in the next events of the topic: sums and empty states are not final. */
  readonly hasMore?: boolean;
  readonly set: readonly (readonly [key: string, row: unknown])[];
  readonly gone: readonly string[];
}

/**
 * A line of GET /console/logs?namespace=&service=&replica=&filter=&tail=&follow= (NDJSON). Without `replica`, the lines of all
 * replicas of the service. `filter` is a text, or a regular expression between slashes. Empty lines keep the connection open.
 */
export interface LogLine {
  /** ISO time; only pods have one. */
  readonly at?: string;
  readonly line: string;
  readonly replica: string;
  /** True for a line about the log: why it cannot be read, or why it ended. */
  readonly isNote?: boolean;
}
