/** Decides where a host gets a content from. Pure: the simulation of a fleet runs the same code. */
import { createHash } from "node:crypto";

export interface ContentPeers {
  readonly self: string;
  readonly content: string;
  /** Hosts that have the whole content. */
  readonly holders: readonly string[];
  /** Hosts that are fetching it, this one included; `since` is an ISO time that all of them see. */
  readonly fetchers: readonly { readonly name: string; readonly since: string }[];
}

export type DownloadChoice =
  | { readonly from: "origin" }
  | { readonly from: "peers"; readonly givers: readonly string[] };

const MAX_GIVERS = 3;

/**
 * Fetchers stand in line by when they began. Without a holder the first fetches from the origin and each other from the
 * one before it, so that one copy crosses the uplink and every host gives about one copy. Holders start lines of their
 * own; where they outnumber the fetchers, each fetcher has several for itself. No giver is given to two fetchers.
 */
export function choosePeers({ self, content, holders, fetchers }: ContentPeers): DownloadChoice {
  const line = [...fetchers]
    .sort((a, b) => compare(a.since, b.since) || compare(a.name, b.name))
    .map(({ name }) => name);
  const place = line.indexOf(self);
  const before = line[place - Math.max(1, holders.length)];
  if (place < holders.length) {
    const givers = spread(holders, content).filter((_, index) => index % line.length === place);
    return { from: "peers", givers: givers.slice(0, MAX_GIVERS) };
  }
  return before === undefined ? { from: "origin" } : { from: "peers", givers: [before] };
}

/** In an order that differs between contents, and is the same on all hosts. */
function spread(holders: readonly string[], content: string): readonly string[] {
  const rank = (name: string) => createHash("sha256").update(`${content} ${name}`).digest("hex");
  return holders
    .map((name) => ({ name, rank: rank(name) }))
    .sort((a, b) => compare(a.rank, b.rank))
    .map(({ name }) => name);
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
