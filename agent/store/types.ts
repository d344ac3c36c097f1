/** The interface of the model store. */
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
  readonly ignorePatterns?: readonly string[] | undefined;
  readonly mmproj?: string | undefined;
  /** Expected checksum of the first file of the weights. */
  readonly sha256?: string | undefined;
  /** `gguf` (the default) makes the store check the first bytes of every `.gguf` file. */
  readonly format?: ModelFormat | undefined;
  /** Selects a model if the source holds several and `files` names none. */
  readonly quantization?: string | undefined;
  /** Commit to fetch instead of the revision that the source names. */
  readonly revision?: string | undefined;
  /** Change marker of the required content (src/hub/inspect/change-marker.ts). Other content of the source is not fetched. */
  readonly changeMarker?: string | undefined;
  /** `namespace/name` of the Model's Secret. Requests that name it find stored content without reading the Secret again. */
  readonly secret?: string | undefined;
  /** Credentials from the Model's Secret, sent only to the source's own host. */
  readonly credentials?: SourceCredentials | undefined;
}

export interface StoredFile {
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  /** Absent for files used in place without a checksum to verify. */
  readonly sha256?: string;
  /** True for the multimodal projector. */
  readonly isProjector?: boolean;
}

/** A model that is complete on disk. `path` is the file, the first shard, or the folder that an engine opens. */
export interface StoredModel {
  readonly path: string;
  readonly mmprojPath?: string;
  /** Sum of all files, the projector included. */
  readonly sizeBytes: number;
  /** Checksum of the first file; absent for a file used in place without a checksum to verify. */
  readonly sha256?: string;
  /** Commit or manifest digest, if the source has one. */
  readonly revision?: string;
  readonly files: readonly StoredFile[];
}

/** Facts read from the files of a model. */
export interface ModelFacts {
  /** Size of all files, including the projector. */
  readonly sizeBytes: number;
  readonly projectorBytes: number;
  /** Summary of the headers of all parts; absent if there is no readable GGUF. */
  readonly gguf?: GgufSummary;
  /** Read from the config.json of safetensors. */
  readonly quantization?: string | undefined;
  /** The reason why a GGUF header could not be read. */
  readonly problem?: { readonly code: ErrorCode; readonly message: string };
}

export interface FetchProgress {
  readonly bytes: number;
  /** Absent until the server has reported the size. */
  readonly totalBytes?: number;
  /** Number of downloads ahead in the queue of this host; absent once the download runs. */
  readonly queuedBehind?: number;
}

export interface FetchOptions {
  readonly signal: AbortSignal;
  /** Holds the content as soon as it is found or fetched, until this owner holds something else. Absent: held during the fetch only. */
  readonly owner?: string;
  /** Namespace or other tenant of the model. Half of the download slots are reserved for tenants that use none. */
  readonly tenant?: string;
  readonly onProgress?: (progress: FetchProgress) => void;
  /** Evicts no prefetched model for this one, because two models that do not fit together would replace each other forever. */
  readonly sparesPrefetched?: boolean;
}

/** One entry of `Host.status.models`. */
export interface StoredModelInfo {
  readonly source: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly fetchedAt: string;
  /** Rounded to the hour, so that use alone rarely changes the status. */
  readonly lastUsedAt: string;
  readonly inUse: boolean;
  /** Never evicted. */
  readonly pinned: boolean;
  /** Last time, in seconds, at which all files were known to match their checksums; absent while a file is missing. */
  readonly verifiedAt?: string;
  /** A damaged file is in quarantine; the next request fetches the model again. */
  readonly damaged: boolean;
  /** Smoothed speed with these weights on this machine; absent before the first measurement. */
  readonly tokensPerSecond?: number;
}

export interface DiskReading {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly storeBytes: number;
  /** Those of `storeBytes` that interrupted downloads have left, which the same download continues with. */
  readonly unfinishedBytes?: number | undefined;
  /** Absent: no quota. */
  readonly quotaBytes?: number | undefined;
}

/** The result of a removal. `owners`: uids of the replicas that use the model, and other holders. */
export type RemovalResult =
  | { readonly at: "removed"; readonly sizeBytes: number }
  | { readonly at: "inUse"; readonly owners: readonly string[] }
  | { readonly at: "pinned" | "absent" };

export interface ModelStore
  extends Pick<ModelRetention, "pin" | "unpin" | "declare">,
    Pick<Verification, "verify"> {
  /** The contents that other hosts may download. */
  readonly contents: ContentLookup;
  /**
   * Resolves to the model if it is complete on disk. Never uses the network. Throws MetalbridgeError for a request that can never
   * succeed. `keepsUse`: the model counts as used no later than before.
   */
  readonly resolve: (
    request: ModelRequest,
    owner?: string,
    options?: { readonly keepsUse?: boolean },
  ) => Promise<StoredModel | undefined>;
  /** Downloads the model if necessary; concurrent calls for one content share one download. Throws MetalbridgeError. */
  readonly fetch: (request: ModelRequest, options: FetchOptions) => Promise<StoredModel>;
  /** Replaces the connections to sources, because they may be half-open after a sleep or a network change. */
  readonly reconnect: () => void;
  readonly list: () => Promise<readonly StoredModelInfo[]>;
  /** Reads facts from the files; each unchanged header is read once. Never throws for the content of a file. */
  readonly inspect: (model: StoredModel) => Promise<ModelFacts>;
  /** Replaces the contents that `owner` (a replica's uid) uses. Contents are not removed until the last owner releases them. */
  readonly hold: (owner: string, contents: readonly string[]) => void;
  readonly release: (owner: string) => void;
  /** Records a speed measured with this content; `list` reports it smoothed and in coarse steps. */
  readonly noteSpeed: (sha256: string, tokensPerSecond: number) => Promise<void>;
  /** Lets the model be evicted before all others, until it is used again. */
  readonly evictFirst: (request: ModelRequest) => Promise<void>;
  /** Removes all refs of a source (fetched by `fetchedBy`) and the blobs that no other ref names. Removes nothing if a part is in use or pinned. */
  readonly remove: (source: string, fetchedBy?: string) => Promise<RemovalResult>;
  /** Removes models that are not in use, pinned or prefetched, the quarantine, and leftovers of abandoned downloads. */
  readonly clean: () => Promise<readonly StoredModelInfo[]>;
  /** Removes unused models, least recently used first, until the reserve and the quota are met or no such model is left. */
  readonly collect: () => Promise<readonly StoredModelInfo[]>;
  readonly setQuota: (quotaBytes: number | undefined) => void;
  readonly disk: () => Promise<DiskReading>;
}

export interface StoreLimits extends RangeLimits {
  /** An attempt ends after this many ms without data. */
  readonly stallMs: number;
  readonly connectMs: number;
  readonly attempts: number;
  readonly firstBackoffMs: number;
  readonly maxRedirects: number;
  /** Maximum number of concurrent downloads; further ones are queued. */
  readonly downloads: number;
  /** Limit for all downloads together; undefined: no limit. */
  readonly bytesPerSecond: number | undefined;
}

export interface StoreOptions {
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Folders whose files may be used in place. No local file outside of them is opened. */
  readonly allowedRoots: readonly string[];
  readonly hfEndpoint: string;
  /** Registry for ollama:// sources without a host; absent: Ollama's public registry. */
  readonly ollamaRegistry?: string | undefined;
  /** Credentials for requests without their own. They are not sent to plain web servers. */
  readonly machineCredentials?: SourceCredentials | undefined;
  /** Remote host names that may be contacted; absent means any. `*.example.com` matches subdomains. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Absent: all content comes from the origin. */
  readonly peers?: PeerFetcher | undefined;
  /** Called when the list of `contents.offers` has changed. */
  readonly onOffers?: (() => void) | undefined;
  readonly allowLoopback?: boolean;
  readonly allowPrivate?: boolean;
  /** CIDRs of private networks that sources may be in. */
  readonly allowedNetworks?: readonly string[] | undefined;
  readonly quotaBytes?: number | undefined;
  /** Creates and removes nothing. A read-only store may be opened while an agent writes to the same folder. */
  readonly isReadOnly?: boolean;
  /** Removes no content to free space, because other readers of this folder do not hold their content here. */
  readonly neverEvicts?: boolean;
  /** Called with the number of bytes that arrive from a source, without the bytes that a resumed part already had. */
  readonly onReceived?: (bytes: number) => void;
  /** Free space that every download leaves on the disk. */
  readonly reserveBytes: number;
  readonly limits?: Partial<StoreLimits>;
  /** Bytes that can be written once the OS has purged caches; called only before a refusal. Absent: only free space counts. */
  readonly capacityWithPurging?: ((folder: string) => Promise<number | undefined>) | undefined;
  /** Identifies this boot of the machine. If absent, parts without a stated checksum are not resumed after a restart. */
  readonly bootId?: string | undefined;
}
