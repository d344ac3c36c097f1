/** Executables of chosen names whose answers come from functions in the test's own process. */
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const CLIENT = join(import.meta.dirname, "command-client.pl");

export interface Answer {
  readonly code?: number;
  readonly out?: string;
  readonly err?: string;
}

export interface Call {
  readonly args: readonly string[];
  readonly euid: number;
}

export type Replayed = (call: Call) => Answer | Promise<Answer>;

export interface ReplayedCommands extends AsyncDisposable {
  /** A folder to put first on a PATH. */
  readonly bin: string;
  /** Every call so far, as a line. */
  readonly calls: string[];
}

export async function replayCommands(
  commands: Readonly<Record<string, Replayed>>,
): Promise<ReplayedCommands> {
  const bin = await mkdtemp(join(tmpdir(), "mb-commands-"));
  await chmod(bin, 0o755);
  const socket = join(bin, "socket");
  const calls: string[] = [];
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    let text = "";
    connection.on("error", () => undefined);
    connection.on("data", (chunk) => {
      text += chunk.toString();
    });
    connection.on("end", () => {
      const [euid, name = "", ...args] = text.split("\0");
      calls.push([name, ...args].join(" "));
      const say = ({ code = 0, out = "", err = "" }: Answer) =>
        connection.end(`${code} ${Buffer.byteLength(out)}\n${out}${err}`);
      Promise.resolve(commands[name]?.({ args, euid: Number(euid) }) ?? { code: 127 }).then(say, (error) =>
        say({ code: 70, err: String(error) }),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  await chmod(socket, 0o666);
  for (const name of Object.keys(commands)) {
    await writeFile(join(bin, name), `#!/bin/sh\nexec perl "${CLIENT}" "${socket}" ${name} "$@"\n`);
    await chmod(join(bin, name), 0o755);
  }
  return {
    bin,
    calls,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await rm(bin, { recursive: true, force: true });
    },
  };
}
