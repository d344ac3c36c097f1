/** Downloads a content from other hosts, into the same part file as downloads from the origin. */
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
  /** Delay between two requests for a chunk that a peer does not have yet. */
  readonly retryMs: number;
  /** Maximum time for the list of Hosts before the origin is used. */
  readonly directoryMs: number;
}

const LIMITS: PeerFetcherLimits = {
  connectMs: 5_000,
  stallMs: 15_000,
  retryMs: 250,
  directoryMs: 5_000,
  chunkMs: 500,
  reserveMs: 8_000,
  sampleBytes: 8 << 20,
  sampleMs: 10_000,
};
/** Maximum number of consecutive answers, each after a delay, that a peer has no more bytes than before. */
const MAX_STUCK = 3;

export function createPeerFetcher(options: PeerFetcherOptions): PeerFetcher {
  const reputation = createReputation(options.clock);
  return { begin: (file, since) => new PeerDownload(file, since, reputation, options) };
}

class PeerDownload implements PeerFetch {
  readonly end: () => void;
  readonly #file: SharedFile;
  readonly #since: string;
  readonly #options: PeerFetcherOptions;
  readonly #limits: PeerFetcherLimits;
  /** Peers that cannot be used for this content. */
  readonly #dropped = new Set<string>();
  readonly #used = new Set<string>();
  /** Time budgets of the lanes of each peer, which survive a withdrawn offer. */
  readonly #budgets = new Map<string, PeerTimeBudget[]>();
  /** Peers whose offers stopped a download from the source, and that have served no chunk since. */
  readonly #indebted = new Set<string>();
  readonly #reputation: Reputation;
  readonly #comparison: SourceComparison;
  /** The size that the origin reports; set once the origin has accepted this host's credentials for the file. */
  #totalBytes: number | undefined;
  /** The origin rejected the request, or does not report the file's size: then peers are not used. */
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
    const ports = { clock, reputation, drop };
    this.#comparison = new SourceComparison(new URL(file.url).host, this.#limits, ports);
  }

  whileOrigin(): OriginPhase {
    const controller = new AbortController();
    // During a comparison with the source, the comparison decides about slow peers.
    if (!this.#comparison.isUnderWay && !this.#isOriginOnly)
      for (const name of this.#indebted)
        this.#drop(name, "it stopped a download from the source and served nothing", true);
    this.#indebted.clear();
    const check = (): void => {
      const choice = this.#choice();
      if (choice.from === "origin" || controller.signal.aborted) return;
      for (const name of choice.peers) this.#indebted.add(name);
      controller.abort();
    };
    const unsubscribe = this.#options.directory.onChange(check);
    const measurement = this.#comparison.measure(check);
    check();
    return {
      signal: controller.signal,
      received: measurement.received,
      isDispensable: (error) => measurement.failed(error) && this.#choice().from === "peers",
      end: () => {
        measurement.end();
        unsubscribe();
      },
    };
  }

  async take(part: DownloadPart, context: DownloadContext): Promise<Received | undefined> {
    const { directory } = this.#options;
    if (!(await directory.untilSynced(this.#limits.directoryMs, context.signal))) return undefined;
    if (this.#choice().from === "origin") return undefined;
    const totalBytes = await this.#readSize(context);
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
      growing.saveHash(part);
      await opened.file.close();
    }
  }

  verified(isContent: boolean): void {
    const peers = [...this.#used];
    if (isContent) this.#options.log.info({ file: this.#file.name, peers }, "model file taken from peers");
    // Several peers agreed on wrong content: all are dropped, and the origin decides.
    for (const name of isContent ? [] : peers)
      this.#drop(name, "it served content that does not match its checksum", true);
  }

  /** Keeps only complete chunks of the part: prefixes of other lengths have no digest. */
  async #open(part: DownloadPart, context: DownloadContext): Promise<OpenPart> {
    const opened = await openPart(part, this.#file, context, true);
    const meta = { url: plainUrl(this.#file.url), boot: context.boot, validator: {} };
    if (opened.sizeBytes === 0) await writeMeta(part, meta);
    return opened;
  }

  /** Makes sure that the origin gives this host access to the file, and returns the file's size. */
  async #readSize(context: DownloadContext): Promise<number | undefined> {
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
      const isExcluded = this.#dropped.has(peer.name) || this.#reputation.isSuspended(peer.name);
      if (peer.port === 0 || isExcluded) continue;
      const offer = offerOf(peer, sha256);
      if (offer?.complete === true || (offer === undefined && this.#isHolder(peer))) holders.push(peer.name);
      else if (offer !== undefined) fetchers.push({ name: peer.name, since: offer.since });
    }
    return choosePeers({ self, content: sha256, holders, fetchers });
  }

  /** The status lists the first file of each model; a request to the peer shows whether it has the others. */
  #isHolder({ host }: PeerHost): boolean {
    const { sha256, source } = this.#file;
    return (host.status?.models ?? []).some(
      (model) => model.damaged !== true && (model.sha256 === sha256 || model.source === source),
    );
  }

  /** Runs until the file is complete, a peer fails, or other peers are the better choice. */
  async #round(growing: GrowingFile, context: DownloadContext): Promise<void> {
    await growing.beginRound();
    const choice = this.#choice();
    if (choice.from === "origin") return;
    const { directory, identity } = this.#options;
    const stop = new AbortController();
    const signal = AbortSignal.any([context.signal, stop.signal]);
    const unsubscribe = directory.onChange(() => {
      if (JSON.stringify(this.#choice()) !== JSON.stringify(choice)) stop.abort();
    });
    const peers = directory.peers().filter(({ name }) => choice.peers.includes(name));
    const clients = peers.map((peer) => createPeerClient({ identity, peer, ...this.#limits }));
    // With one peer, a second concurrent request keeps the link busy.
    const lanes = clients.length === 1 ? [...clients, ...clients] : clients;
    try {
      const runs = lanes.map((client, index) =>
        this.#lane(client, growing, this.#budgetOf(client.name, index), signal).catch((error: unknown) => {
          const wasStopped = signal.aborted;
          stop.abort();
          if (wasStopped) return;
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
      unsubscribe();
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
        this.#fetchChunk(client, chunk, buffer, inTime),
      ).catch((error: unknown) => {
        budget.waste(clock.monotonicMs() - startedMs);
        throw error;
      });
      budget.spend(clock.monotonicMs() - startedMs, rate);
      this.#used.add(client.name);
      await growing.append(chunk, buffer.subarray(0, answer.bytes), answer.prefix, signal);
      this.#indebted.delete(client.name);
    }
  }

  async #fetchChunk(
    client: PeerClient,
    chunk: number,
    into: Buffer,
    signal: AbortSignal,
  ): Promise<Extract<PeerResponse, { at: "chunk" }>> {
    const { sha256, url } = this.#file;
    const content = { sha256, totalBytes: this.#totalBytes ?? 0, address: addressDigest(plainUrl(url)) };
    let mostBytes = -1;
    let stuckAnswers = 0;
    for (;;) {
      const answer = await client.chunk(content, chunk, into, signal).catch((error: unknown) => {
        if (error instanceof PeerProtocolError) throw error;
        throw new PeerFailure(error instanceof Error ? error.message : String(error));
      });
      if (answer.at === "chunk") return answer;
      stuckAnswers = answer.availableBytes > mostBytes ? 0 : stuckAnswers + 1;
      mostBytes = Math.max(mostBytes, answer.availableBytes);
      if (stuckAnswers >= MAX_STUCK || mostBytes >= (chunk + 1) * CHUNK_BYTES) break;
      await waitBeforeRetry(this.#limits.retryMs, { clock: this.#options.clock, signal });
    }
    throw new PeerFailure("its download does not advance");
  }

  /** `isSuspended`: the peer is not used for other files either, for a time. */
  #drop(name: string, why: string, isSuspended = false): void {
    this.#dropped.add(name);
    this.#indebted.delete(name);
    if (isSuspended) this.#reputation.suspend(name);
    this.#options.log.warn({ peer: name, file: this.#file.name, why }, "peer dropped for this file");
  }
}

/** A peer cannot be used for this content. */
class PeerFailure extends Error {}

/** A peer used up its time budget. */
class SlowPeer extends Error {
  /** The maximum rate that the peer can have had, in bytes per second. */
  readonly rate: number;

  constructor(deadlineMs: number) {
    super("no chunk in time");
    this.rate = maxPeerRate(deadlineMs);
  }
}

/** Throws SlowPeer if the work takes longer. */
async function within<T>(
  deadlineMs: number,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  work: (inTime: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = new AbortController();
  const cancel = clock.after(deadlineMs, () => timeout.abort());
  try {
    return await work(AbortSignal.any([signal, timeout.signal]));
  } catch (error) {
    if (timeout.signal.aborted && !signal.aborted) throw new SlowPeer(deadlineMs);
    throw error;
  } finally {
    cancel();
  }
}

function offerOf({ host }: PeerHost, sha256: string) {
  return host.status?.peer?.offers?.find((offer) => offer.sha256 === sha256);
}
