/** Takes a content from other hosts, into the same part that the origin's bytes go to. */
import { plainUrl } from "../../src/hub/failure.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { MIN_SHARED_BYTES } from "../store/content/content-sharing.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import type {
  DownloadContext,
  OriginPhase,
  PeerFetch,
  PeerFetcher,
  Received,
  SharedFile,
} from "../store/download/context.ts";
import { readFromOrigin } from "../store/download/fetch-content.ts";
import {
  type DownloadPart,
  type OpenPart,
  openPart,
  truncateIfDiskFull,
  writeMeta,
} from "../store/download/part.ts";
import { waitBeforeRetry } from "../store/download/retry.ts";
import { choosePeers, type DownloadChoice } from "./choose.ts";
import { createPeerClient, type PeerClient, PeerProtocolError, type PeerResponse } from "./client.ts";
import {
  type ComparisonLimits,
  createReputation,
  maxPeerRate,
  PeerTimeBudget,
  type PeerTimeLimits,
  type Reputation,
  SourceComparison,
} from "./comparison.ts";
import type { Directory, PeerHost } from "./directory.ts";
import { addressDigest } from "./grants.ts";
import { GrowingFile } from "./growing-file.ts";
import type { PeerIdentity } from "./identity.ts";

export interface PeerFetcherOptions {
  readonly self: string;
  readonly identity: PeerIdentity;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits?: Partial<PeerFetcherLimits>;
}

export interface PeerFetcherLimits extends PeerTimeLimits, ComparisonLimits {
  readonly connectMs: number;
  readonly stallMs: number;
  /** Between two requests for what a peer does not have yet. */
  readonly againMs: number;
  /** How long the list of Hosts may take before the origin is asked. */
  readonly directoryMs: number;
}

const LIMITS: PeerFetcherLimits = {
  ...{ connectMs: 5_000, stallMs: 15_000, againMs: 250, directoryMs: 5_000 },
  ...{ chunkMs: 500, reserveMs: 8_000, sampleBytes: 8 << 20, sampleMs: 10_000 },
};
/** Answers in a row that a peer has no more than before. Each comes after a while. */
const MAX_STUCK = 3;

export function createPeerFetcher(options: PeerFetcherOptions): PeerFetcher {
  const reputation = createReputation(options.clock);
  return { begin: (file, since) => new Flight(file, since, reputation, options) };
}

class Flight implements PeerFetch {
  readonly end: () => void;
  readonly #file: SharedFile;
  readonly #since: string;
  readonly #options: PeerFetcherOptions;
  readonly #limits: PeerFetcherLimits;
  /** Peers that cannot be used for this content. */
  readonly #dropped = new Set<string>();
  readonly #used = new Set<string>();
  /** Of the lanes of each peer, whatever it offers and withdraws meanwhile. */
  readonly #budgets = new Map<string, PeerTimeBudget[]>();
  /** Peers whose offers ended a download from the source, and that have given nothing since. */
  readonly #owing = new Set<string>();
  readonly #reputation: Reputation;
  readonly #comparison: SourceComparison;
  /** By the origin, once it has accepted this host's credentials for the file. */
  #totalBytes: number | undefined;
  /** The origin refused, or does not say how large the file is: then it is not taken from others. */
  #isOriginOnly = false;

  constructor(file: SharedFile, since: string, reputation: Reputation, options: PeerFetcherOptions) {
    this.#file = file;
    this.#since = since;
    this.#reputation = reputation;
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    this.end = options.directory.use();
    const { clock } = options;
    const drop = (name: string) => this.#drop(name, "it is slower than the source", true);
    const world = { clock, reputation, drop };
    this.#comparison = new SourceComparison(new URL(file.url).host, this.#limits, world);
  }

  whileOrigin(): OriginPhase {
    const controller = new AbortController();
    // Slow ones are compared with the source now, which decides about them.
    if (!this.#comparison.isUnderWay && !this.#isOriginOnly)
      for (const name of this.#owing)
        this.#drop(name, "it ended a download from the source and gave nothing", true);
    this.#owing.clear();
    const look = (): void => {
      const choice = this.#choice();
      if (choice.from === "origin" || controller.signal.aborted) return;
      for (const name of choice.givers) this.#owing.add(name);
      controller.abort();
    };
    const stopLooking = this.#options.directory.onChange(look);
    const measured = this.#comparison.measure(look);
    look();
    return {
      signal: controller.signal,
      received: measured.received,
      isDispensable: (error) => measured.failed(error) && this.#choice().from === "peers",
      end: () => {
        measured.end();
        stopLooking();
      },
    };
  }

  async take(part: DownloadPart, context: DownloadContext): Promise<Received | undefined> {
    const { directory } = this.#options;
    if (!(await directory.known(this.#limits.directoryMs, context.signal))) return undefined;
    if (this.#choice().from === "origin") return undefined;
    const totalBytes = await this.#askOrigin(context);
    if (totalBytes === undefined) return undefined;
    const opened = await this.#open(part, context);
    const growing = new GrowingFile(opened, this.#file, totalBytes, context);
    try {
      while (this.#choice().from === "peers") {
        context.signal.throwIfAborted();
        await this.#round(growing, context);
        if (!growing.isWhole()) continue;
        return { sizeBytes: totalBytes, validator: {}, isOneResponse: false };
      }
      context.signal.throwIfAborted();
      return undefined;
    } catch (error) {
      throw await truncateIfDiskFull(error, opened, part, this.#file);
    } finally {
      growing.remember(part);
      await opened.file.close();
    }
  }

  verified(isContent: boolean): void {
    const peers = [...this.#used];
    if (isContent) this.#options.log.info({ file: this.#file.name, peers }, "model file taken from peers");
    // Some of them lied in agreement; the origin decides.
    for (const name of isContent ? [] : peers)
      this.#drop(name, "it gave other content than its checksum says", true);
  }

  /** Whole chunks alone are kept of what is there: prefixes of other lengths have no digest. */
  async #open(part: DownloadPart, context: DownloadContext): Promise<OpenPart> {
    const opened = await openPart(part, this.#file, context, true);
    const meta = { url: plainUrl(this.#file.url), boot: context.boot, validator: {} };
    if (opened.sizeBytes === 0) await writeMeta(part, meta);
    return opened;
  }

  /** Others give this file only to hosts that may have it: the origin says so, and how large it is. */
  async #askOrigin(context: DownloadContext): Promise<number | undefined> {
    if (this.#totalBytes !== undefined) return this.#totalBytes;
    const found = await readFromOrigin(this.#file, context);
    const bytes = found && (found.totalBytes ?? this.#file.sizeBytes);
    if (bytes !== undefined && bytes >= MIN_SHARED_BYTES) this.#totalBytes = bytes;
    else this.#isOriginOnly = true;
    return this.#totalBytes;
  }

  #choice(): DownloadChoice {
    if (this.#isOriginOnly || this.#comparison.isUnderWay) return { from: "origin" };
    const { self, directory } = this.#options;
    const { sha256 } = this.#file;
    const holders: string[] = [];
    const fetchers = [{ name: self, since: this.#since }];
    for (const peer of directory.peers()) {
      const isOut = this.#dropped.has(peer.name) || this.#reputation.isPutOff(peer.name);
      if (peer.port === 0 || isOut) continue;
      const offer = offerOf(peer, sha256);
      if (offer?.complete === true || (offer === undefined && this.#isHolder(peer))) holders.push(peer.name);
      else if (offer !== undefined) fetchers.push({ name: peer.name, since: offer.since });
    }
    return choosePeers({ self, content: sha256, holders, fetchers });
  }

  /** The status lists the first file of each model; of the others the peer itself says whether it has them. */
  #isHolder({ host }: PeerHost): boolean {
    const { sha256, source } = this.#file;
    return (host.status?.models ?? []).some(
      (model) => model.damaged !== true && (model.sha256 === sha256 || model.source === source),
    );
  }

  /** Until the file is whole, a giver fails, or others are to be asked. */
  async #round(growing: GrowingFile, context: DownloadContext): Promise<void> {
    await growing.beginRound();
    const choice = this.#choice();
    if (choice.from === "origin") return;
    const { directory, identity } = this.#options;
    const over = new AbortController();
    const signal = AbortSignal.any([context.signal, over.signal]);
    const stopLooking = directory.onChange(() => {
      if (JSON.stringify(this.#choice()) !== JSON.stringify(choice)) over.abort();
    });
    const peers = directory.peers().filter(({ name }) => choice.givers.includes(name));
    const clients = peers.map((peer) => createPeerClient({ identity, peer, ...this.#limits }));
    // A second request under way keeps the line full where there is one giver.
    const lanes = clients.length === 1 ? [...clients, ...clients] : clients;
    try {
      const runs = lanes.map((client, index) =>
        this.#lane(client, growing, this.#budgetOf(client.name, index), signal).catch((error: unknown) => {
          const isOurs = signal.aborted;
          over.abort();
          if (isOurs) return;
          if (error instanceof SlowPeer) {
            this.#budgets.delete(client.name);
            return this.#comparison.compare(client.name, error.rate);
          }
          if (!(error instanceof PeerFailure || error instanceof PeerProtocolError)) throw error;
          this.#drop(client.name, error.message, error instanceof PeerProtocolError);
        }),
      );
      const failed = (await Promise.allSettled(runs)).find((run) => run.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    } finally {
      stopLooking();
      for (const client of clients) client.close();
    }
  }

  #budgetOf(peer: string, lane: number): PeerTimeBudget {
    const lanes = this.#budgets.get(peer) ?? [];
    this.#budgets.set(peer, lanes);
    const budget = lanes[lane] ?? new PeerTimeBudget(this.#limits);
    lanes[lane] = budget;
    return budget;
  }

  async #lane(
    client: PeerClient,
    growing: GrowingFile,
    budget: PeerTimeBudget,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#options;
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (;;) {
      signal.throwIfAborted();
      const chunk = growing.nextChunk();
      if (chunk === undefined) return;
      const { rate } = this.#comparison;
      const startedMs = clock.monotonicMs();
      const answer = await within(budget.deadlineMs(rate), { clock, signal }, (inTime) =>
        this.#ask(client, chunk, buffer, inTime),
      ).catch((error: unknown) => {
        budget.waste(clock.monotonicMs() - startedMs);
        throw error;
      });
      budget.spend(clock.monotonicMs() - startedMs, rate);
      this.#used.add(client.name);
      await growing.append(chunk, buffer.subarray(0, answer.bytes), answer.prefix, signal);
      this.#owing.delete(client.name);
    }
  }

  async #ask(
    client: PeerClient,
    chunk: number,
    into: Buffer,
    signal: AbortSignal,
  ): Promise<Extract<PeerResponse, { at: "chunk" }>> {
    const { sha256, url } = this.#file;
    const content = { sha256, totalBytes: this.#totalBytes ?? 0, address: addressDigest(plainUrl(url)) };
    let most = -1;
    let isStuckFor = 0;
    for (;;) {
      const answer = await client.chunk(content, chunk, into, signal).catch((error: unknown) => {
        if (error instanceof PeerProtocolError) throw error;
        throw new PeerFailure(error instanceof Error ? error.message : String(error));
      });
      if (answer.at === "chunk") return answer;
      isStuckFor = answer.availableBytes > most ? 0 : isStuckFor + 1;
      most = Math.max(most, answer.availableBytes);
      if (isStuckFor >= MAX_STUCK || most >= (chunk + 1) * CHUNK_BYTES) break;
      await waitBeforeRetry(this.#limits.againMs, { clock: this.#options.clock, signal });
    }
    throw new PeerFailure("it came no further");
  }

  /** `isForAll`: for a time it is asked for nothing. */
  #drop(name: string, why: string, isForAll = false): void {
    this.#dropped.add(name);
    this.#owing.delete(name);
    if (isForAll) this.#reputation.putOff(name);
    this.#options.log.warn({ peer: name, file: this.#file.name, why }, "peer dropped for this file");
  }
}

/** What makes a peer useless for a content. */
class PeerFailure extends Error {}

/** A peer used up its time budget. */
class SlowPeer extends Error {
  /** The most that it can have given, in bytes per second. */
  readonly rate: number;

  constructor(deadlineMs: number) {
    super("no chunk in time");
    this.rate = maxPeerRate(deadlineMs);
  }
}

/** Throws SlowPeer where the work takes longer. */
async function within<T>(
  deadlineMs: number,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  work: (inTime: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const cancel = clock.after(deadlineMs, () => late.abort());
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (late.signal.aborted && !signal.aborted) throw new SlowPeer(deadlineMs);
    throw error;
  } finally {
    cancel();
  }
}

function offerOf({ host }: PeerHost, sha256: string) {
  return host.status?.peer?.offers?.find((offer) => offer.sha256 === sha256);
}
