/** The files of the identity of a host: created, read, replaced every 30 days, and never replaced because they are damaged. */
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { expect, test } from "vitest";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createIdentity } from "../gate/fixtures/sealed.ts";
import { createTransportIdentity } from "./host-transport.ts";
import { PUBLISHED_MS } from "./rotation.ts";

const MONTH_MS = 30 * 86_400_000;

async function prepare() {
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, "transport", name);
  const life = new AbortController();
  let [nowMs, sinceStartMs] = [Date.now(), 0];
  const calls = { changed: 0, replaced: 0 };
  const timers = new Set<() => void>();
  const start = () =>
    createTransportIdentity({
      stateDir: folder.path,
      hostName: "mac-1",
      clock: {
        nowMs: () => nowMs,
        monotonicMs: () => sinceStartMs,
        after: (_, fire) => {
          timers.add(fire);
          return () => timers.delete(fire);
        },
      },
      log: quietLog,
      signal: life.signal,
      onChange: () => {
        calls.changed += 1;
      },
      onReplaced: () => {
        calls.replaced += 1;
      },
    });
  const identity = start();
  await identity.begin();
  return {
    at,
    identity,
    restart: start,
    calls,
    timers,
    end: () => life.abort(),
    /** The next check, that much later. */
    check: async (ms: number) => {
      nowMs += ms;
      sinceStartMs += ms;
      await identity.begin();
      return identity.status()?.fingerprints;
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

function fingerprintIn(path: string): string {
  return new X509Certificate(readFileSync(path)).fingerprint256.replaceAll(":", "").toLowerCase();
}

test("the first start creates certificate and key, which a restarted agent finds again", async () => {
  await using bed = await prepare();
  const path = bed.at("current.pem");
  const pem = readFileSync(path);
  createSecureContext({ cert: pem, key: pem });
  expect([statSync(path).mode & 0o777, statSync(bed.at(".")).mode & 0o777]).toEqual([0o600, 0o700]);
  expect(bed.identity.status()).toEqual({ fingerprints: [fingerprintIn(path)] });
  expect(bed.calls).toEqual({ changed: 1, replaced: 1 });
  const next = bed.restart();
  expect(next.status()).toBeUndefined();
  expect(await next.file()).toBe(path);
  expect(next.fingerprint()).toBe(bed.identity.fingerprint());
  bed.end();
  expect(bed.timers.size).toBe(0);
});

test("after 30 days the next certificate is published, and comes into use once all slices have it", async () => {
  await using bed = await prepare();
  const { at, identity, calls } = bed;
  const published = new Set<string>();
  identity.connect((fingerprint) => published.has(fingerprint));
  const first = identity.fingerprint();
  expect(await bed.check(MONTH_MS - 60_000)).toEqual([first]);
  const [, next = ""] = (await bed.check(120_000)) ?? [];
  expect(next).toBe(fingerprintIn(at("next.pem")));
  // A host without a connection keeps both.
  expect(await bed.check(MONTH_MS)).toEqual([first, next]);
  published.add(next);
  expect(await bed.check(60_000)).toEqual([first, next]);
  published.delete(next);
  expect(await bed.check(PUBLISHED_MS)).toEqual([first, next]);
  published.add(next);
  expect(await bed.check(60_000)).toEqual([first, next]);
  expect(calls.replaced).toBe(1);
  expect(await bed.check(PUBLISHED_MS)).toEqual([next]);
  expect([identity.fingerprint(), fingerprintIn(at("current.pem")), existsSync(at("next.pem"))]).toEqual([
    next,
    next,
    false,
  ]);
  expect(calls).toEqual({ changed: 3, replaced: 2 });
  // Not older than its use, although it was created a month ago.
  expect(await bed.check(MONTH_MS - 60_000)).toEqual([next]);
  expect(await bed.check(60_000)).toHaveLength(2);
});

test("a removed file is a new identity, and the next one of a rotation takes its place", async () => {
  await using bed = await prepare();
  const first = bed.identity.fingerprint();
  rmSync(bed.at("current.pem"));
  const [second] = (await bed.check(60_000)) ?? [];
  expect(second).toBe(fingerprintIn(bed.at("current.pem")));
  expect(second).not.toBe(first);
  utimesSync(bed.at("current.pem"), 0, 0);
  const [, third] = (await bed.check(60_000)) ?? [];
  rmSync(bed.at("current.pem"));
  expect(await bed.check(60_000)).toEqual([third]);
});

const other = createIdentity("mac-1");

test.each<[string, (pem: string) => string]>([
  ["an empty file", () => ""],
  ["half a file", (pem) => pem.slice(0, pem.length / 2)],
  ["a certificate without a key", (pem) => pem.slice(0, pem.indexOf("-----BEGIN PRIVATE"))],
  ["another's key", (pem) => pem.slice(0, pem.indexOf("-----BEGIN PRIVATE")) + other.key],
])("%s is an error that names the file, and is never replaced", async (_, damage) => {
  await using bed = await prepare();
  const path = bed.at("current.pem");
  const damaged = damage(readFileSync(path, "utf8"));
  const fingerprint = bed.identity.fingerprint();
  writeFileSync(path, damaged);
  const error = { code: "TransportKeyInvalid", message: expect.stringContaining(path) };
  await expect(bed.identity.file()).rejects.toMatchObject(error);
  // The gate still serves with it.
  expect(await bed.check(2 * MONTH_MS)).toEqual([fingerprint]);
  const next = bed.restart();
  await next.begin();
  expect([next.status(), next.fingerprint()]).toEqual([undefined, undefined]);
  await expect(next.file()).rejects.toMatchObject(error);
  expect(readFileSync(path, "utf8")).toBe(damaged);
});

test("a damaged successor does not keep replicas from starting", async () => {
  await using bed = await prepare();
  writeFileSync(bed.at("next.pem"), "garbage");
  expect(await bed.identity.file()).toBe(bed.at("current.pem"));
  expect(await bed.check(2 * MONTH_MS)).toEqual([bed.identity.fingerprint()]);
  expect(readFileSync(bed.at("next.pem"), "utf8")).toBe("garbage");
});
