/** Copies a release to a host and upgrades the host, in one session of the administrator's own ssh, as root through sudo. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadArchive } from "../../launchd/release/stage.ts";
import { type ErrorCode, errorCatalog } from "../../src/api/errors.ts";
import { formatSpan } from "../program/age.ts";

export interface SshOptions {
  readonly program: string;
  readonly user?: string | undefined;
  /** As for `ssh -o`. */
  readonly options: readonly string[];
}

export interface SshSession {
  readonly host: string;
  /** Absent: ssh resolves the name of the host. */
  readonly address?: string | undefined;
  readonly archive: ReadArchive;
  /** Arguments of `metalbridge upgrade` on the host. */
  readonly args: readonly string[];
  /** Time limit of the session, without the time for the copy. Undefined: no limit. */
  readonly timeoutMs: number | undefined;
  /** Ends the session. An upgrade that has started continues on the host. */
  readonly signal: AbortSignal;
}

export type UpgradeStep = "connect" | "copy" | "unpack" | "upgrade";

export type SessionEnd =
  | { readonly at: "upgraded" }
  | {
      readonly at: "failed";
      readonly step: UpgradeStep;
      readonly code: ErrorCode;
      readonly message: string;
      /** The last lines that the host wrote to standard error. */
      readonly tail: string;
    }
  | { readonly at: "abandoned"; readonly step: UpgradeStep };

const TAIL_LINES = 12;
const TAIL_BYTES = 8_192;
/** ssh's own exit code for a connection that failed. */
const SSH_FAILED = 255;
/** The slowest copy that the time limit allows: 8 Mbit/s. */
const MIN_COPY_BYTES_PER_MS = 1_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The script has no single quotes and no backslashes, so that every login shell passes it on unchanged. A lost connection
 * does not stop it: a truncated archive has another checksum, and an upgrade that has started runs to its end.
 */
const SCRIPT = `
set -eu
trap "" HUP INT TERM PIPE
umask 077
sum=$1
shift
echo @copy
folder=$(mktemp -d ~root/.metalbridge-upgrade.XXXXXX)
trap "rm -rf $folder" EXIT
cat > $folder/release.tar.gz
if command -v sha256sum > /dev/null; then found=$(sha256sum < $folder/release.tar.gz)
else found=$(shasum -a 256 < $folder/release.tar.gz); fi
found=$(echo $found | cut -d " " -f 1)
if [ $found != $sum ]; then
  echo "ReleaseSumMismatch: the copy on the host has the SHA-256 $found, not $sum" >&2
  exit 1
fi
echo @unpack || :
mkdir $folder/release
tar -xzf $folder/release.tar.gz -C $folder/release --strip-components 1 --no-same-owner
rm $folder/release.tar.gz
echo @upgrade || :
$folder/release/bin/metalbridge upgrade $* < /dev/null
`;

export async function upgradeBySsh(ssh: SshOptions, session: SshSession): Promise<SessionEnd> {
  // Without a limit, an upgrade that hangs would never end the session.
  const limitMs = await limitOf(session);
  // A separate session, because Ctrl-C in the terminal would interrupt ssh.
  const child = spawn(ssh.program, sshArgs(ssh, session), { stdio: "pipe", detached: true });
  const abandon = () => child.kill("SIGTERM");
  session.signal.addEventListener("abort", abandon, { once: true });
  if (session.signal.aborted) abandon();
  let hasTimedOut = false;
  const onTimeout = () => {
    hasTimedOut = true;
    killSession(child);
  };
  const limit = limitMs === undefined ? undefined : setTimeout(onTimeout, limitMs);
  const [out, err] = [keepTail(child.stdout), keepTail(child.stderr)];
  const closed = new Promise<{ readonly exitCode: number | null; readonly error?: Error }>((resolve) => {
    child.once("error", (error) => resolve({ exitCode: null, error }));
    child.once("close", (exitCode) => resolve({ exitCode }));
  });
  // A host that refuses the session reads nothing. Its exit code and standard error have the reason.
  await pipeline(createReadStream(session.archive.archive), child.stdin).catch(() => undefined);
  const { exitCode, error } = await closed;
  clearTimeout(limit);
  session.signal.removeEventListener("abort", abandon);
  if (exitCode === 0) return { at: "upgraded" };
  const step = stepOf(out.seen());
  if (session.signal.aborted) return { at: "abandoned", step };
  if (hasTimedOut && limitMs !== undefined)
    return { at: "failed", step, tail: err.text(), ...explainTimeout(session, step, limitMs) };
  const tail = error === undefined ? err.text() : `${ssh.program}: ${error.message}`;
  return { at: "failed", step, tail, ...explain(step, exitCode, tail) };
}

/** Undefined: no limit. */
async function limitOf({ archive, timeoutMs }: SshSession): Promise<number | undefined> {
  if (timeoutMs === undefined) return undefined;
  const size = await stat(archive.archive).then(
    (file) => file.size,
    () => 0,
  );
  return Math.min(timeoutMs + size / MIN_COPY_BYTES_PER_MS, MAX_TIMER_MS);
}

/** Also kills the programs that ssh has started, such as a proxy. */
function killSession({ pid, stdin, stdout, stderr }: ChildProcessWithoutNullStreams): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // The session has just ended.
  }
  for (const stream of [stdin, stdout, stderr]) stream.destroy();
}

function explainTimeout({ host }: SshSession, step: UpgradeStep, limitMs: number) {
  const note = step === "upgrade" ? "; an upgrade that has started on the host continues" : "";
  const message = `the ssh session to ${host} did not end within ${formatSpan(limitMs)}, at the step ${step}${note}`;
  return { code: "SshFailed", message } as const;
}

/** The administrator's options come first, because ssh uses the first value of each option. */
function sshArgs(
  { user, options }: SshOptions,
  { host, address, archive, args }: SshSession,
): readonly string[] {
  const ours = ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ForwardAgent=no"];
  // The host key is known under the name of the Host, not under the address in its status.
  const alias = address === undefined ? [] : [`HostKeyAlias=${host}`];
  return [
    ...[...options, ...alias, ...ours].flatMap((option) => ["-o", option]),
    ...(user === undefined ? [] : ["-l", user]),
    ...["-T", "--", address ?? host],
    `env LC_ALL=C sudo -n /bin/sh -c '${SCRIPT}' metalbridge ${[archive.sha256, ...args].join(" ")}`,
  ];
}

function stepOf(marks: ReadonlySet<string>): UpgradeStep {
  if (marks.has("@upgrade")) return "upgrade";
  if (marks.has("@unpack")) return "unpack";
  return marks.has("@copy") ? "copy" : "connect";
}

/** Uses the error code that the host printed, if any: `Code: message`. */
function explain(
  step: UpgradeStep,
  exitCode: number | null,
  tail: string,
): { readonly code: ErrorCode; readonly message: string } {
  for (const [, code = "", message = ""] of tail.matchAll(/^([A-Z][A-Za-z]+): (.*)$/gm))
    if (step !== "connect" && isCode(code)) return { code, message };
  const last = tail.trimEnd().split("\n").at(-1) ?? "";
  if (exitCode === SSH_FAILED || exitCode === null)
    return { code: "SshFailed", message: last === "" ? "ssh exited without a message" : last };
  if (step === "connect") return { code: "SudoRefused", message: last };
  if (/no space left/i.test(tail)) return { code: "InstallDiskFull", message: last };
  return { code: "InstallFailed", message: last === "" ? `exit code ${exitCode}` : last };
}

function isCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorCatalog, text);
}

interface OutputTail {
  readonly text: () => string;
  /** Lines that begin with @. */
  readonly seen: () => ReadonlySet<string>;
}

function keepTail(stream: Readable): OutputTail {
  let text = "";
  const seen = new Set<string>();
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    for (const [mark] of `${text}${chunk}`.slice(-TAIL_BYTES - chunk.length).matchAll(/^@\w+$/gm))
      seen.add(mark);
    text = `${text}${chunk}`.slice(-TAIL_BYTES);
  });
  return { text: () => text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n"), seen: () => seen };
}
