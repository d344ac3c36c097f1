/** `metalbridge key create`, `update`, `rotate`, `disable`, `enable` and `revoke`. */
import { type Command, InvalidArgumentError } from "commander";
import { MetalbridgeError } from "../../src/api/errors.ts";
import {
  firstKeyWords,
  type GatewayKey,
  keyState,
  lastKeyWords,
  rotateKey,
  switchKey,
} from "../../src/gateway/key.ts";
import type { NewKey } from "../../src/gateway/key-secret.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { unwrapResult } from "../cluster/failure.ts";
import type { OutputFormat } from "../cluster/flags.ts";
import { confirm } from "../program/confirm.ts";
import { printLine, printNote, printResult } from "../program/output.ts";
import { type KeyFieldFlags, type KeyFlags, readLimits, readScope } from "./flags.ts";
import { changeKey, createKey, findKey, findKeySecret, generateKey, listKeySecrets } from "./stored.ts";

interface Confirmed {
  readonly yes?: boolean;
}

interface Printed {
  readonly output: OutputFormat;
}

export async function keyCreate(
  name: string,
  flags: KeyFlags & KeyFieldFlags & Printed & Confirmed,
  command: Command,
): Promise<void> {
  const scope = usageError(command, () => readScope(flags));
  if (scope === undefined)
    command.error("error: name what the key may use: --namespaces, --services, --models, or --all");
  const { owner = name, priority = "normal", weight = 1 } = flags;
  await withCluster("key", flags, async (cluster) => {
    if (flags.yes !== true && (await countKeys(cluster)) === 0)
      await confirm(`${firstKeyWords(name, cluster.namespace)} Create it?`);
    const fresh = generateKey(Date.now());
    const limits = readLimits({}, flags);
    const key = { hashes: [fresh.hash], owner, scope, limits, priority, weight, expiresAt: expiryOf(flags) };
    await createKey(cluster, name, key);
    printKey(name, fresh, key, flags);
  });
}

export async function keyUpdate(
  name: string,
  flags: KeyFlags & KeyFieldFlags,
  command: Command,
): Promise<void> {
  const scope = usageError(command, () => readScope(flags));
  await withCluster("key", flags, async (cluster) => {
    const stored = await findKey(cluster, name);
    const { key } = stored;
    await changeKey(cluster, stored, {
      ...key,
      owner: flags.owner ?? key.owner,
      scope: scope ?? key.scope,
      limits: readLimits(key.limits, flags),
      priority: flags.priority ?? key.priority,
      weight: flags.weight ?? key.weight,
      expiresAt: expiryOf(flags) ?? key.expiresAt,
    });
    printLine(`key ${name} is updated`);
  });
}

export async function keyRotate(
  name: string,
  flags: KeyFlags & Printed & { readonly overlap: number },
): Promise<void> {
  await withCluster("key", flags, async (cluster) => {
    const stored = await findKey(cluster, name);
    const nowMs = Date.now();
    const state = keyState(stored.key, nowMs);
    if (state === "revoked" || state === "expired")
      throw new MetalbridgeError("GatewayKeyInvalid", `key ${name} is ${state}, so it cannot be rotated`, {
        summary: "create a new key",
        command: "metalbridge key create <name>",
      });
    const fresh = generateKey(nowMs);
    const overlapUntil = isoSeconds(nowMs + flags.overlap);
    const key = rotateKey(stored.key, fresh.hash, overlapUntil);
    await changeKey(cluster, stored, key);
    const ended = stored.key.hashes.filter(({ sha256 }) =>
      key.hashes.every((kept) => kept.sha256 !== sha256),
    );
    if (ended.length > 0)
      printNote(
        "the key before the previous one is no longer valid: at most two keys are valid at the same time",
      );
    printNote(
      flags.overlap === 0
        ? "the previous key is no longer valid"
        : `the previous key is valid until ${overlapUntil}`,
    );
    if (state === "disabled") printNote(`both are refused until: metalbridge key enable ${name}`);
    printKey(name, fresh, key, flags);
  });
}

/** `enable` makes the same key valid again, unlike a revocation, which is final. */
export async function keySwitch(name: string, flags: KeyFlags, to: "enabled" | "disabled"): Promise<void> {
  await withCluster("key", flags, async (cluster) => {
    const stored = await findKey(cluster, name);
    const key = switchKey(stored.key, { name, isDisabled: to === "disabled", nowMs: Date.now() });
    if (key === stored.key) return printLine(`key ${name} is ${to} already`);
    await changeKey(cluster, stored, key);
    printLine(`key ${name} is ${to}`);
  });
}

export async function keyRevoke(
  name: string,
  flags: KeyFlags & Confirmed & { readonly delete?: boolean },
): Promise<void> {
  await withCluster("key", flags, async (cluster) => {
    const { client, namespace } = cluster;
    if (flags.delete === true) {
      const { uid } = (await findKeySecret(cluster, name)).metadata;
      if (flags.yes !== true && (await countKeys(cluster)) === 1)
        await confirm(`${lastKeyWords(name, namespace)} Without --delete it stays closed. Delete it?`);
      const removed = await client.remove(SECRETS, { name, namespace }, { uid: uid ?? "" });
      unwrapResult({ verb: "delete", kind: SECRETS, name, namespace }, removed);
      return printLine(`key ${name} is deleted`);
    }
    const stored = await findKey(cluster, name);
    if (stored.key.revokedAt !== undefined)
      return printLine(`key ${name} was already revoked at ${stored.key.revokedAt}`);
    await changeKey(cluster, stored, { ...stored.key, revokedAt: isoSeconds(Date.now()) });
    printLine(`key ${name} is revoked`);
  });
}

/** Undefined for a user who may not list Secrets, who gets a note. */
async function countKeys(cluster: Cluster): Promise<number | undefined> {
  try {
    return (await listKeySecrets(cluster)).length;
  } catch (error) {
    if (error instanceof MetalbridgeError && error.code === "ApiForbidden") {
      printNote("you may not list the keys, so it is unknown whether there are others");
      return undefined;
    }
    throw error;
  }
}

function expiryOf({ validFor }: KeyFieldFlags): string | undefined {
  return validFor === undefined ? undefined : isoSeconds(Date.now() + validFor);
}

/** Standard output holds the key alone, so that a script can store it. */
function printKey(
  name: string,
  { text }: NewKey,
  key: GatewayKey,
  { output, namespace }: KeyFlags & Printed,
): void {
  printNote("this is the only time that the key is printed: the cluster stores its hash");
  const { owner, scope, limits, priority, weight, expiresAt } = key;
  const result = { name, namespace, key: text, owner, scope, limits, priority, weight, expiresAt };
  printResult(output, result, () => text);
}

function usageError<T>(command: Command, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidArgumentError) command.error(`error: ${error.message}`);
    throw error;
  }
}
