/** Ensures that only one command changes an installation at a time. */
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstallLayout } from "../../launchd/layout/layout.ts";
import type { Choices } from "../../launchd/plan/entries.ts";
import { requireRoot } from "../../launchd/plan/refuse.ts";
import type { InstallPorts } from "../../launchd/ports.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { sha256Hex } from "../../src/util/hash.ts";
import { holderOf, tryLock } from "../../src/util/process-lock.ts";

/** Throws RootRequired, and InstallBusy with the pid of the other command. The kernel releases the lock of a killed command. */
export async function withInstallLock(
  { layout }: Choices,
  { euid }: Pick<InstallPorts, "euid">,
  work: () => Promise<void>,
): Promise<void> {
  const refusal = requireRoot({ layout, euid });
  if (refusal !== undefined) throw refusal;
  const name = lockName(layout);
  const release = await tryLock(name);
  if (release === undefined) throw busy(await holderOf(name));
  try {
    await work();
  } finally {
    await release();
  }
}

/** Outside the prefix, which install creates and uninstall removes. Only root can write to /var/run. */
function lockName({ domain, prefix }: InstallLayout): string {
  const digest = sha256Hex(prefix).slice(0, 12);
  return join(domain === "system" ? "/var/run" : tmpdir(), `metalbridge-install-${digest}`);
}

function busy(pid: string | undefined): MetalbridgeError {
  const who = pid === undefined ? "" : ` (pid ${pid})`;
  return new MetalbridgeError(
    "InstallBusy",
    `another metalbridge command is changing this installation${who}`,
  );
}
