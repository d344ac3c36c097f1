/** Decides whether a host downloads a content from peers or from the origin. Pure: the simulation of a fleet runs the same code. */
import { sha256Hex } from "../../src/util/hash.ts";

export interface ContentPeers {
  readonly self: string;
  readonly content: string;
  /** Hosts that have the complete content. */
  readonly holders: readonly string[];
  /** Hosts that are downloading it, this one included; `since` is an ISO time that all of them see. */
  readonly fetchers: readonly { readonly name: string; readonly since: string }[];
}

export type DownloadChoice =
  | { readonly from: "origin" }
  | { readonly from: "peers"; readonly peers: readonly string[] };

const MAX_PEERS = 3;

/**
 * Fetchers form a chain in the order of their start. Without a holder, the first one downloads from the origin and each other
 * one from its predecessor, so that one copy crosses the uplink and every host serves about one copy. Each holder starts its
 * own chain; if holders outnumber the fetchers, each fetcher has several of them. No peer serves two fetchers.
 */
export function choosePeers({ self, content, holders, fetchers }: ContentPeers): DownloadChoice {
  const chain = [...fetchers]
    .sort((a, b) => compare(a.since, b.since) || compare(a.name, b.name))
    .map(({ name }) => name);
  const position = chain.indexOf(self);
  if (position < holders.length) {
    const peers = spread(holders, content).filter((_, index) => index % chain.length === position);
    return { from: "peers", peers: peers.slice(0, MAX_PEERS) };
  }
  const predecessor = chain[position - Math.max(1, holders.length)];
  return predecessor === undefined ? { from: "origin" } : { from: "peers", peers: [predecessor] };
}

/** Orders the holders by content, in the same way on all hosts. */
function spread(holders: readonly string[], content: string): readonly string[] {
  return holders
    .map((name) => ({ name, rank: sha256Hex(`${content} ${name}`) }))
    .sort((a, b) => compare(a.rank, b.rank))
    .map(({ name }) => name);
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
