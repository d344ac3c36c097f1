/** Events as lines for people. */
import type { EventOf, RecordedEvent } from "../observe/recording.ts";

/** Undefined for what would drown the rest: requests that were answered, and lag. */
export function describeEvent(event: RecordedEvent): string | undefined {
  const words = wordsFor(event);
  return words === undefined ? undefined : `${timeOf(event.at)}  ${words}`;
}

/** `+01:02.3` */
export function timeOf(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const rest = ((ms % 60_000) / 1_000).toFixed(1).padStart(4, "0");
  return `+${String(minutes).padStart(2, "0")}:${rest}`;
}

type Words = {
  readonly [T in RecordedEvent["type"]]: (event: EventOf<T>) => string | undefined;
};

const WORDS: Words = {
  fault: ({ phase, kind, id, target = "", detail }) => `${MARKS[phase]} ${kind} #${id} ${target} ${detail}`,
  round: ({ index, change, reasons }) => `== round ${index} ${change} ${reasons.join("; ")}`,
  engine: ({ pid, uid, host, change }) => `   engine ${pid} of ${short(uid)} on ${host} ${change}`,
  part: ({ part, host = "", change, detail = "" }) => `   ${part} ${host} ${change} ${detail}`,
  api: ({ isUp }) => `   API server ${isUp ? "up" : "away"}`,
  link: ({ host, state }) => `   link of ${host} ${state}`,
  address: ({ host, from, to }) => `   ${host} moved from ${from} to ${to}`,
  disk: ({ host, isFull }) => `   disk of ${host} ${isFull ? "full" : "free again"}`,
  replica: (event) => `   replica ${event.name} (${short(event.uid)}) on ${event.host}: ${stateOf(event)}`,
  slice: ({ replica, host, endpoint = "no endpoint", isServing, isGone }) =>
    `   slice of ${replica} on ${host}: ${endpoint} ${isGone ? "gone" : isServing ? "serving" : "not serving"}`,
  pod: ({ name, node, isGone, isReady, isDeleting, phase }) =>
    `   pod ${name} on ${node || "no node"}: ${isGone ? "gone" : `${phase}${isReady ? ", ready" : ""}${isDeleting ? " (deleting)" : ""}`}`,
  service: ({ name, isGone, phase, reason, ready, wanted }) =>
    `   service ${name}: ${isGone ? "gone" : `${phase} ${reason}, ${ready} of ${wanted} ready`}`,
  host: ({ name, reachable, reason, lost }) =>
    `   host ${name}: reachable ${reachable} (${reason}), lost ${lost}`,
  request: ({ id, service, outcome, failure, endpoint = "no endpoint" }) =>
    outcome === "answered" ? undefined : `!  request ${id} to ${service} failed: ${failure} (${endpoint})`,
  gatewayRequest: ({ id, service, failure }) =>
    failure === "" ? undefined : `!  request ${id} to ${service} by the gateway failed: ${failure}`,
  revocation: ({ refusedAfterMs = "not", streamFailure }) =>
    `   revoked key refused after ${refusedAfterMs} ms; its stream: ${streamFailure || "complete"}`,
  gatewayEnd: ({ inFlight, queued, recorded }) =>
    `   gateway: ${inFlight} in flight, ${queued} queued, ${recorded} requests recorded`,
  proxy: ({ endpoints }) => `   kube-proxy sends to ${endpoints.join(", ") || "no endpoint"}`,
  proxyWatch: ({ resource, isOpen }) => `   kube-proxy's watch of ${resource} ${isOpen ? "begins" : "ends"}`,
  load: ({ service, isOn }) => `   load on ${service} ${isOn ? "on" : "off"}`,
  leftovers: ({ items }) => `   left behind: ${items.length === 0 ? "nothing" : items.join("; ")}`,
  lag: () => undefined,
};

function wordsFor<T extends RecordedEvent["type"]>(event: EventOf<T>): string | undefined {
  const words = WORDS[event.type as T] as (one: EventOf<T>) => string | undefined;
  return words(event)?.trimEnd();
}

function stateOf({ isGone, isDeleting, phase, reason, hostReachable }: EventOf<"replica">): string {
  if (isGone) return "gone";
  const more = [isDeleting ? " (deleting)" : "", hostReachable === "False" ? " (host unreachable)" : ""];
  return `${phase} ${reason}${more.join("")}`;
}

const MARKS = { injected: ">>", healed: "<<", skipped: "--" } as const;

function short(uid: string): string {
  return uid.slice(0, 8);
}
