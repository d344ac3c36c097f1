/** Takes a content from other hosts, into the same part that the origin's bytes go to. */
import { plainUrl } from "../../src/hub/failure.ts";
import type { Clock, Log } from "../../src/ports.ts";
import { giveBackIfFull, type Received } from "../store/remote/attempt.ts";
import type { DownloadContext } from "../store/remote/download-context.ts";
import { firstBytesCheck } from "../store/remote/first-bytes.ts";
import { type OpenPart, openPart, type Part, writeMeta } from "../store/remote/part.ts";
import { CHUNK_BYTES } from "../store/remote/prefix-hash.ts";
import { pause } from "../store/remote/retrying.ts";
import { writeAll } from "../store/remote/sink.ts";
import type { PeerFlight, PeerTaker, SharedFile } from "../store/types.ts";
import { type Choice, chooseGivers } from "./choose.ts";
import { createPeerClient, type PeerAnswer, type PeerClient } from "./client.ts";
import type { Directory, PeerHost } from "./directory.ts";
import type { Identity } from "./identity.ts";

export interface TakerOptions {
  readonly self: string;
  readonly identity: Identity;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits?: Partial<TakerLimits>;
}

export interface TakerLimits {
  readonly connectMs: number;
  readonly stallMs: number;
  /** Between two requests for what a peer does not have yet. */
  readonly againMs: number;
  /** How long the list of Hosts may take before the origin is asked. */
  readonly directoryMs: number;
}

const LIMITS: TakerLimits = { connectMs: 5_000, stallMs: 15_000, againMs: 250, directoryMs: 5_000 };
/** Answers in a row that a peer has no more than before. Each comes after a while. */
const MOST_STUCK = 3;
/** In all, for one chunk. */
const MOST_WAITS = 60;
/** Bytes between two checks of the free space. */
const ADMIT_EVERY_BYTES = 64 << 20;

export function createTaker(options: TakerOptions): PeerTaker {
  return {
    begin: (file, since) => {
      const done = options.directory.use();
      const flight = new Flight(file, since, options);
      return {
        take: (part, context) => flight.take(part, context),
        whileOrigin: () => flight.whileOrigin(),
        end: done,
      };
    },
  };
}

class Flight implements Omit<PeerFlight, "end"> {
  readonly #file: SharedFile;
  readonly #since: string;
  readonly #options: TakerOptions;
  readonly #limits: TakerLimits;
  /** Peers that cannot be used for this content. */
  readonly #dropped = new Set<string>();
  readonly #used = new Set<string>();

  constructor(file: SharedFile, since: string, options: TakerOptions) {
    this.#file = file;
    this.#since = since;
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
  }

  whileOrigin(): { readonly signal: AbortSignal; readonly end: () => void } {
    const controller = new AbortController();
    const look = (): void => {
      if (this.#choice().from === "peers") controller.abort();
    };
    const end = this.#options.directory.onChange(look);
    look();
    return { signal: controller.signal, end };
  }

  async take(part: Part, context: DownloadContext): Promise<Received | undefined> {
    const { directory, log } = this.#options;
    if (!(await directory.known(this.#limits.directoryMs, context.signal))) return undefined;
    if (this.#choice().from === "origin") return undefined;
    const opened = await this.#open(part, context);
    try {
      const growing = new GrowingFile(opened, this.#file, context);
      while (this.#choice().from === "peers") {
        context.signal.throwIfAborted();
        await this.#round(growing, context);
        if (!growing.isWhole()) continue;
        const received = await growing.finish();
        if (received !== undefined) {
          log.info({ file: this.#file.name, peers: [...this.#used] }, "model file taken from peers");
          return received;
        }
        // Some of them lied in agreement; the origin decides.
        for (const name of this.#used) this.#drop(name, "it gave other content than its checksum says");
      }
      context.signal.throwIfAborted();
      return undefined;
    } catch (error) {
      throw await giveBackIfFull(error, opened, part, this.#file);
    } finally {
      await opened.file.close();
    }
  }

  /** Whole chunks alone are kept of what is there: prefixes of other lengths have no digest. */
  async #open(part: Part, { boot, signal }: DownloadContext): Promise<OpenPart> {
    const url = plainUrl(this.#file.url);
    const trust = { url, boot, hasChecksum: true, wholeBytes: CHUNK_BYTES };
    const opened = await openPart(part, trust, { memory: { sizeBytes: 0 }, signal });
    if (opened.sizeBytes === 0) await writeMeta(part, { url, boot, validator: {} });
    return opened;
  }

  #choice(): Choice {
    const { self, directory } = this.#options;
    const { sha256 } = this.#file;
    const holders: string[] = [];
    const fetchers = [{ name: self, since: this.#since }];
    for (const peer of directory.peers()) {
      if (peer.port === 0 || this.#dropped.has(peer.name)) continue;
      const offer = offerOf(peer, sha256);
      if (offer?.complete === true || (offer === undefined && this.#isHolder(peer))) holders.push(peer.name);
      else if (offer !== undefined) fetchers.push({ name: peer.name, since: offer.since });
    }
    return chooseGivers({ self, content: sha256, holders, fetchers });
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
      const runs = lanes.map((client) =>
        this.#lane(client, growing, signal).catch((error: unknown) => {
          const isOurs = signal.aborted;
          over.abort();
          if (isOurs) return;
          if (!(error instanceof PeerFailure)) throw error;
          this.#drop(client.name, error.message);
        }),
      );
      const failed = (await Promise.allSettled(runs)).find((run) => run.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    } finally {
      stopLooking();
      for (const client of clients) client.close();
    }
  }

  async #lane(client: PeerClient, growing: GrowingFile, signal: AbortSignal): Promise<void> {
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (;;) {
      const chunk = await growing.nextChunk(signal);
      if (chunk === undefined) return;
      const answer = await this.#ask(client, chunk, buffer, signal);
      growing.totalBytes ??= answer.totalBytes;
      if (growing.totalBytes !== answer.totalBytes) throw new PeerFailure("it has a content of another size");
      this.#used.add(client.name);
      await growing.append(chunk, buffer.subarray(0, answer.bytes), answer.prefix, signal);
    }
  }

  async #ask(
    client: PeerClient,
    chunk: number,
    into: Buffer,
    signal: AbortSignal,
  ): Promise<Extract<PeerAnswer, { at: "chunk" }>> {
    let most = -1;
    let isStuckFor = 0;
    for (let waits = 0; waits < MOST_WAITS; waits += 1) {
      const answer = await client.chunk(this.#file.sha256, chunk, into, signal).catch((error: unknown) => {
        throw new PeerFailure(error instanceof Error ? error.message : String(error));
      });
      if (answer.at === "chunk") return answer;
      isStuckFor = answer.availableBytes > most ? 0 : isStuckFor + 1;
      most = Math.max(most, answer.availableBytes);
      if (isStuckFor >= MOST_STUCK || most >= (chunk + 1) * CHUNK_BYTES) break;
      await pause(this.#limits.againMs, { clock: this.#options.clock, signal });
    }
    throw new PeerFailure("it came no further");
  }

  #drop(name: string, why: string): void {
    this.#dropped.add(name);
    this.#options.log.warn({ peer: name, file: this.#file.name, why }, "peer dropped for this file");
  }
}

/** What makes a peer useless for a content. */
class PeerFailure extends Error {}

/** The part, to which lanes add their chunks in order. */
class GrowingFile {
  totalBytes: number | undefined;
  readonly #opened: OpenPart;
  readonly #file: SharedFile;
  readonly #context: DownloadContext;
  readonly #waiting = new Set<() => void>();
  /** What is verified; the disk is behind it while chunks are written. */
  #hashed: number;
  #written: Promise<void> = Promise.resolve();
  #bytes: number;
  #claimed = 0;
  #admittedUntil = -1;

  constructor(opened: OpenPart, file: SharedFile, context: DownloadContext) {
    this.#opened = opened;
    this.#file = file;
    this.#context = context;
    this.#bytes = opened.sizeBytes;
    this.#hashed = this.#bytes;
    this.totalBytes = file.sizeBytes;
    this.#tell();
  }

  isWhole(): boolean {
    return this.totalBytes !== undefined && this.#bytes >= this.totalBytes;
  }

  /** Chunks that a failed lane had are fetched again. Rejects where one could not be written. */
  async beginRound(): Promise<void> {
    // A round that was broken off reports no failed write, and the file then has fewer bytes than are verified.
    await this.#written;
    this.#claimed = this.#bytes / CHUNK_BYTES;
  }

  /** Undefined when all are asked for. */
  async nextChunk(signal: AbortSignal): Promise<number | undefined> {
    // Until one has come, the size may be unknown.
    if (this.totalBytes === undefined && this.#claimed > 0) await this.#until(() => this.#bytes > 0, signal);
    signal.throwIfAborted();
    if (this.totalBytes !== undefined && this.#claimed * CHUNK_BYTES >= this.totalBytes) return undefined;
    this.#claimed += 1;
    return this.#claimed - 1;
  }

  /**
   * Waits for the chunks before it; throws PeerFailure for bytes that are not what their giver says. The next chunk
   * is verified while this one is written.
   */
  async append(chunk: number, bytes: Buffer, prefix: string, signal: AbortSignal): Promise<void> {
    const start = chunk * CHUNK_BYTES;
    await this.#until(() => this.#hashed >= start, signal);
    if (chunk === 0) this.#checkStart(bytes);
    await this.#admit();
    signal.throwIfAborted();
    if (!this.#opened.hash.updateIf(bytes, prefix)) throw new PeerFailure("it sent wrong bytes");
    this.#hashed += bytes.length;
    // One after the other: a part that breaks off is resumed with all that it has, so it must have no holes.
    const written = this.#written.then(async () => {
      await writeAll(this.#opened.file, bytes, bytes.length, start);
      this.#bytes += bytes.length;
      this.#context.onReceived?.(bytes.length);
      this.#tell();
    });
    this.#written = written;
    this.#wake();
    await written;
    await this.#context.pace?.(bytes.length, signal);
  }

  /** Undefined if it is not the content; then nothing of it is kept. */
  async finish(): Promise<Received | undefined> {
    const { file, hash } = this.#opened;
    await file.datasync();
    if (hash.digest() === this.#file.sha256)
      return { sha256: this.#file.sha256, sizeBytes: this.#bytes, validator: {}, prefixes: hash.prefixes };
    await file.truncate(0);
    this.#opened.hash.reset();
    this.#bytes = 0;
    this.#hashed = 0;
    return undefined;
  }

  #checkStart(bytes: Buffer): void {
    try {
      firstBytesCheck(this.#file, undefined)(bytes);
    } catch (error) {
      throw new PeerFailure(error instanceof Error ? error.message : String(error));
    }
  }

  async #admit(): Promise<void> {
    if (this.totalBytes === undefined || this.#bytes < this.#admittedUntil) return;
    this.#admittedUntil = this.#bytes + ADMIT_EVERY_BYTES;
    await this.#context.admit(this.totalBytes - this.#bytes);
  }

  #tell(): void {
    const { totalBytes } = this;
    if (this.#bytes > 0) {
      this.#context.onProgress(this.#bytes, totalBytes);
      this.#context.onStored?.({ hash: this.#opened.hash, bytes: this.#bytes, totalBytes });
    }
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look();
  }

  #until(isReached: () => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        this.#waiting.delete(look);
        signal.removeEventListener("abort", look);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      const look = (): void => {
        if (signal.aborted || isReached()) finish();
      };
      this.#waiting.add(look);
      signal.addEventListener("abort", look, { once: true });
      look();
    });
  }
}

function offerOf({ host }: PeerHost, sha256: string) {
  return host.status?.peer?.offers?.find((offer) => offer.sha256 === sha256);
}
