/** What llama-server itself has to say, apart from the text of clients that its log repeats: prompts, paths, bad JSON. */

/** Stamped by its logger (without debug lines, which hold prompts), or printed by ggml, the loader or the runtime as they fail. */
const OWN =
  /^\0*(?:\d+\.\d+\.\d+\.\d+ [IWE] |(?:ggml|llama|gguf|clip|mtmd)_|terminate called|libc\+\+abi|dyld\[|\/\S+:\d+: |--- metalbridge)/;
/** After these words comes what a request held, or what was made of it. */
const CLIENT_TEXT_FOLLOWS =
  /\b(?:log_server_r|operator\(\)|send_error|uncaught exception of type \S+?(?=:\s|$))/;

/**
 * The lines that may leave the namespace of the engine's clients, in statuses, Events and logs of the agent. A grammar that
 * does not parse is repeated as it is, so that a client may forge lines: they say nothing but what it says itself.
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
