/** The model store as the rest of the agent sees it. */
import type { ErrorCode } from "../../src/api/errors.ts";
import type { ModelFormat } from "../../src/api/fields/shared.ts";
import type { GgufSummary } from "../../src/models/gguf/summary.ts";
import type { SourceCredentials } from "../../src/models/source/credentials.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ContentLookup } from "./content/content-sharing.ts";
import type { PeerFetcher, RangeLimits } from "./download/context.ts";
import type { ModelRetention } from "./model-retention.ts";
import type { Verification } from "./verification.ts";

export interface ModelRequest {
  /** As in `Model.spec.source`. */
  readonly source: string;
  readonly files?: readonly string[] | undefined;
  readonly mmproj?: string | undefined;
  /** Of the first file of the weights. */
  readonly sha256?: string | undefined;
  /** `gguf` (default) makes the store look at the first bytes of every `.gguf`. */
  readonly format?: ModelFormat | undefined;
  /** Chooses where the source holds several models and `files` names none. */
  readonly quantization?: string | undefined;
  /** Commit to fetch instead of the revision that the source names. */
  readonly revision?: string | undefined;
  /** Of the content that is wanted (src/hub/inspect/change-marker.ts): other content of the source is not fetched. */
  readonly changeMarker?: string | undefined;
  /** `namespace/name` of the Model's Secret. What it opened is found without reading it again, by requests that name it. */
  readonly secret?: string | undefined;
  /** Of the Model's Secret; for the source's own host only. */
  readonly credentials?: SourceCredentials | undefined;
}

export interface StoredFile {
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  /** Absent for files used in place without a checksum to verify. */
  readonly sha256?: string;
  /** True for the projector of images or sound. */
  readonly isProjector?: boolean;
}

/** A model that is complete on disk. `path` is the file, the first shard, or the folder that an engine opens. */
export interface StoredModel {
  readonly path: string;
  readonly mmprojPath?: string;
  /** Sum of all files, the projector included. */
  readonly sizeBytes: number;
  /** Of the first file; absent for a file used in place without a checksum to verify. */
  readonly sha256?: string;
  /** The commit or the digest of the manifest, where the source has one. */
  readonly revision?: string;
  readonly files: readonly StoredFile[];
}

/** What the files of a model say of themselves. */
export interface ModelFacts {
  /** Of all files, the projector included. */
  readonly sizeBytes: number;
  readonly projectorBytes: number;
  /** From the headers of all parts; absent where there is no GGUF or none that can be read. */
  readonly gguf?: GgufSummary;
  /** Why a GGUF's header could not be read. */
  readonly problem?: { readonly code: ErrorCode; readonly message: string };
}

export interface FetchProgress {
  readonly bytes: number;
  /** Absent while the server has not said. */
  readonly totalBytes?: number;
  /** While it is queued: how many downloads of this host go first. */
  readonly queuedBehind?: number;
}

export interface FetchOptions {
  readonly signal: AbortSignal;
  /** Holds what is found and fetched from that moment on, until it holds something else; absent: held during the fetch alone. */
  readonly owner?: string;
  /** The namespace that the model is for, or who else: half of the places for downloads are kept for those that use none. */
  readonly tenant?: string;
  readonly onProgress?: (progress: FetchProgress) => void;
  /** Evicts no prefetched model for this one: two that do not fit together would replace each other forever. */
  readonly sparesPrefetched?: boolean;
}

/** One entry of `Host.status.models`. */
export interface StoredModelInfo {
  readonly source: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly fetchedAt: string;
  /** To the hour, so that use alone does not change status all the time. */
  readonly lastUsedAt: string;
  readonly inUse: boolean;
  /** Never evicted. */
  readonly pinned: boolean;
  /** When all of its files were last known to match their checksums, to the second; absent while one is missing. */
  readonly verifiedAt?: string;
  /** A file was found damaged and is set aside; the model is fetched again when it is wanted. */
  readonly damaged: boolean;
  /** As last measured with these weights on this machine, smoothed; absent before the first measurement. */
  readonly tokensPerSecond?: number;
}

export interface DiskReading {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly storeBytes: number;
  /** Absent: no quota. */
  readonly quotaBytes?: number | undefined;
}

/** What became of a removal. `owners`: uids of the replicas that use the model, and other holders. */
export type RemovalResult =
  | { readonly at: "removed"; readonly sizeBytes: number }
  | { readonly at: "inUse"; readonly owners: readonly string[] }
  | { readonly at: "pinned" | "absent" };

export interface ModelStore
  extends Pick<ModelRetention, "pin" | "unpin" | "declare">,
    Pick<Verification, "verify"> {
  /** What other hosts may have. */
  readonly contents: ContentLookup;
  /** The model if it is complete and verified on disk. Never uses the network; throws MetalbridgeError for what can never work. */
  readonly resolve: (request: ModelRequest, owner?: string) => Promise<StoredModel | undefined>;
  /** Brings the model to disk; concurrent calls for one content share one download. Throws MetalbridgeError. */
  readonly fetch: (request: ModelRequest, options: FetchOptions) => Promise<StoredModel>;
  /** Replaces the connections to sources: after a sleep or on another network they may be dead without a sign. */
  readonly reconnect: () => void;
  readonly list: () => Promise<readonly StoredModelInfo[]>;
  /** What the files say of themselves; headers are read once per file as it is. Never throws for what is in a file. */
  readonly inspect: (model: StoredModel) => Promise<ModelFacts>;
  /** Marks contents as used by `owner` (a replica's uid), in the place of what it used before: they are never removed until the last owner releases them. */
  readonly hold: (owner: string, contents: readonly string[]) => void;
  readonly release: (owner: string) => void;
  /** Records a speed measured with the content of this checksum; `list` reports it smoothed and in coarse steps. */
  readonly noteSpeed: (sha256: string, tokensPerSecond: number) => Promise<void>;
  /** Removes every ref of a source (that was fetched by then), and the blobs that nothing else names; none of it while a part is in use or pinned. */
  readonly remove: (source: string, fetchedBy?: string) => Promise<RemovalResult>;
  /** Removes what is neither in use nor pinned nor prefetched, what is in quarantine, and what abandoned downloads left. */
  readonly clean: () => Promise<readonly StoredModelInfo[]>;
  /** Removes least recently used, unused models until reserve and quota are kept, or none is left. */
  readonly collect: () => Promise<readonly StoredModelInfo[]>;
  readonly setQuota: (quotaBytes: number | undefined) => void;
  readonly disk: () => Promise<DiskReading>;
}

export interface StoreLimits extends RangeLimits {
  /** No byte for this long ends an attempt. */
  readonly stallMs: number;
  readonly connectMs: number;
  readonly attempts: number;
  readonly firstBackoffMs: number;
  readonly maxRedirects: number;
  /** Downloads at once; further ones are queued. */
  readonly downloads: number;
  /** Of all downloads together; undefined: no limit. */
  readonly bytesPerSecond: number | undefined;
}

export interface StoreOptions {
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Folders whose files may be used in place; nothing outside of them is ever opened. */
  readonly allowedRoots: readonly string[];
  readonly hfEndpoint: string;
  /** Where ollama:// sources without a host are; absent: Ollama's own registry. */
  readonly ollamaRegistry?: string | undefined;
  /** Used where the request brings none, by sources that are not just any web server. */
  readonly machineCredentials?: SourceCredentials | undefined;
  /** Remote host names that may be asked; absent means any. `*.example.com` matches subdomains. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Absent: every byte comes from the origin. */
  readonly peers?: PeerFetcher | undefined;
  /** What `contents.offers` lists changed. */
  readonly onOffers?: (() => void) | undefined;
  readonly allowLoopback?: boolean;
  readonly allowPrivate?: boolean;
  /** Private networks, as CIDRs, that sources may be in. */
  readonly allowedNetworks?: readonly string[] | undefined;
  readonly quotaBytes?: number | undefined;
  /** Makes and removes nothing when it is opened, and may be opened beside an agent that writes. */
  readonly isReadOnly?: boolean;
  /** Removes no content to make room: others that read this folder hold nothing here. */
  readonly neverEvicts?: boolean;
  /** Called with bytes as they arrive from a source; bytes that a resumed part already had do not count. */
  readonly onReceived?: (bytes: number) => void;
  /** Left free on the disk by every download. */
  readonly reserveBytes: number;
  readonly limits?: Partial<StoreLimits>;
  /** Bytes that can be written once the system has purged what it can; asked only before a refusal. Absent: what is free is all there is. */
  readonly capacityWithPurging?: ((folder: string) => Promise<number | undefined>) | undefined;
  /** Identifies this boot of the machine; if absent, parts without a stated checksum are not resumed after a restart. */
  readonly bootId?: string | undefined;
}
