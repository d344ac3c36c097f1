/** Separates log lines of llama-server from text of clients that the log repeats: prompts, paths, invalid JSON. */

/** Lines with the stamp of the logger (except debug lines, which contain prompts), and lines of ggml, the loader or the runtime. */
const OWN =
  /^\0*(?:\d+\.\d+\.\d+\.\d+ [IWE] |(?:ggml|llama|gguf|clip|mtmd)_|terminate called|libc\+\+abi|dyld\[|\/\S+:\d+: |--- metalbridge)/;
/** These words are followed by content of a request. */
const CLIENT_TEXT_FOLLOWS =
  /\b(?:log_server_r|operator\(\)|send_error|uncaught exception of type \S+?(?=:\s|$))/;

/**
 * Lines that may be shown outside the namespace of the engine's clients, in statuses, Events and logs of the agent. The log
 * repeats an invalid grammar, so a client can forge lines, but these only reveal the client's own text.
 */
export function ownLines(log: string): string {
  return log.split("\n").flatMap(ownLine).join("\n");
}

export function isOwnLine(line: string): boolean {
  return OWN.test(line) && !CLIENT_TEXT_FOLLOWS.test(line);
}

function ownLine(line: string): string[] {
  if (!OWN.test(line)) return [];
  const match = CLIENT_TEXT_FOLLOWS.exec(line);
  return [match === null ? line : `${line.slice(0, match.index + match[0].length)}: …`];
}
