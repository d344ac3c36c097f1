/**
 * The identity with which this host's gate serves sealed replicas: a key with a self-signed certificate, valid at all times, whose
 * fingerprint gateways and relays know from the status of the Host. It is replaced every 30 days while requests run.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdir, readFile, rename, stat, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { HostTransport } from "../../src/api/host.ts";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { fingerprintOfCertificate } from "../../src/kube/remote/fingerprint.ts";
import { ifExists, syncPath, writeFileAtomic } from "../../src/util/atomic-file.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import { planRotation, type RotationStep } from "./rotation.ts";

export const TRANSPORT_FOLDER = "transport";
/** Certificate and key in one file, so that no reader gets halves of two. */
const CURRENT = "current.pem";
const NEXT = "next.pem";
const CHECK_MS = 60_000;

export interface TransportPorts {
  readonly stateDir: string;
  /** The common name of the certificates, which proves nothing. */
  readonly hostName: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The status has changed. */
  readonly onChange: () => void;
  /** The gate must read the file again. */
  readonly onReplaced: () => void;
  /** Absent: a minute. */
  readonly checkMs?: number;
}

export interface TransportIdentity {
  /** Creates the identity if there is none, and keeps it up to date until the signal. */
  readonly begin: () => Promise<void>;
  /** The file for gates, created if it is missing. Rejects with `TransportKeyInvalid` if it is damaged. */
  readonly file: () => Promise<string>;
  /** The fingerprint of the certificate in use; undefined while there is none. */
  readonly fingerprint: () => string | undefined;
  readonly status: () => HostTransport | undefined;
  /** `isPublished`: true if every EndpointSlice of this host's sealed replicas has the fingerprint. */
  readonly connect: (isPublished: (fingerprint: string) => boolean) => void;
}

export function createTransportIdentity(ports: TransportPorts): TransportIdentity {
  return new Identity(ports);
}

class Identity implements TransportIdentity {
  readonly #ports: TransportPorts;
  readonly #current: string;
  readonly #next: string;
  readonly #inTurn = createSerializer();
  #fingerprints: { readonly current?: string | undefined; readonly next?: string | undefined } = {};
  #isPublished: (fingerprint: string) => boolean = () => false;
  /** Since when the next certificate is published everywhere, on the monotonic clock. */
  #publishedSince: number | undefined;
  #problem: string | undefined;

  constructor(ports: TransportPorts) {
    this.#ports = ports;
    this.#current = join(ports.stateDir, TRANSPORT_FOLDER, CURRENT);
    this.#next = join(ports.stateDir, TRANSPORT_FOLDER, NEXT);
  }

  async begin(): Promise<void> {
    const { clock, log, signal, checkMs = CHECK_MS } = this.#ports;
    try {
      await this.#inTurn(() => this.#update());
      this.#problem = undefined;
    } catch (error) {
      const problem = errorMessage(error);
      if (problem !== this.#problem)
        log.error({ err: error }, "a certificate for sealed replicas cannot be used");
      this.#problem = problem;
    }
    if (signal.aborted) return;
    const cancel = clock.after(checkMs, () => {
      signal.removeEventListener("abort", cancel);
      void this.begin();
    });
    signal.addEventListener("abort", cancel, { once: true });
  }

  async file(): Promise<string> {
    const failure = await this.#inTurn(() => this.#update()).catch((error: unknown) => error);
    // A damaged successor does not matter here.
    if (failure !== undefined && (await readIdentity(this.#current)) === undefined) throw failure;
    return this.#current;
  }

  fingerprint(): string | undefined {
    return this.#fingerprints.current;
  }

  status(): HostTransport | undefined {
    const { current, next } = this.#fingerprints;
    if (current === undefined) return undefined;
    return { fingerprints: next === undefined ? [current] : [current, next] };
  }

  connect(isPublished: (fingerprint: string) => boolean): void {
    this.#isPublished = isPublished;
  }

  /** Reads the files, so that a removed one is replaced, and applies the step that is due. */
  async #update(): Promise<void> {
    const before = this.#fingerprints;
    await mkdir(dirname(this.#current), { recursive: true, mode: 0o700 });
    try {
      await this.#read();
      const step = planRotation(
        {
          currentSinceMs: (await ifExists(stat(this.#current)))?.mtimeMs,
          hasNext: this.#fingerprints.next !== undefined,
          nextPublishedForMs: this.#publishedForMs(),
        },
        this.#ports.clock.nowMs(),
      );
      if (step === undefined) return;
      await this.#apply(step);
      await this.#read();
      this.#ports.log.info(
        { step, ...this.#fingerprints },
        "the certificate for sealed replicas has changed",
      );
      if (step !== "createNext") this.#ports.onReplaced();
    } finally {
      const { current, next } = this.#fingerprints;
      if (current !== before.current || next !== before.next) this.#ports.onChange();
    }
  }

  /** While a file is damaged, its last certificate counts: the gate still has it. */
  async #read(): Promise<void> {
    const before = this.#fingerprints;
    const [current, next] = await Promise.allSettled([readIdentity(this.#current), readIdentity(this.#next)]);
    this.#fingerprints = {
      current: current.status === "fulfilled" ? current.value : before.current,
      next: next.status === "fulfilled" ? next.value : before.next,
    };
    for (const one of [current, next]) if (one.status === "rejected") throw one.reason;
  }

  #publishedForMs(): number | undefined {
    const { next } = this.#fingerprints;
    const now = this.#ports.clock.monotonicMs();
    const isPublished = next !== undefined && this.#isPublished(next);
    this.#publishedSince = isPublished ? (this.#publishedSince ?? now) : undefined;
    return this.#publishedSince === undefined ? undefined : now - this.#publishedSince;
  }

  async #apply(step: RotationStep): Promise<void> {
    const { hostName, clock } = this.#ports;
    if (step === "useNext") {
      // Its 30 days begin now, however long its publication took.
      const at = clock.nowMs() / 1_000;
      await utimes(this.#next, at, at);
      await rename(this.#next, this.#current);
      await syncPath(dirname(this.#current));
      return;
    }
    const { cert, key } = createCertificate({ name: hostName });
    await writeFileAtomic(step === "createNext" ? this.#next : this.#current, `${cert}${key}`);
  }
}

/** The fingerprint of the certificate in the file; undefined if there is no file. A damaged file is never replaced silently. */
async function readIdentity(path: string): Promise<string | undefined> {
  const pem = await ifExists(readFile(path, "utf8"));
  if (pem === undefined) return undefined;
  const invalid = (why: string, cause?: unknown) =>
    new MetalbridgeError("TransportKeyInvalid", `${path} ${why}`, undefined, { cause });
  try {
    const certificate = new X509Certificate(pem);
    if (certificate.checkPrivateKey(createPrivateKey(pem))) return fingerprintOfCertificate(certificate);
  } catch (cause) {
    throw invalid(`is damaged: ${errorMessage(cause)}`, cause);
  }
  throw invalid("has a key that is not that of its certificate");
}
