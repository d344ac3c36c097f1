/** What kube-proxy really sends connections to, as the kernel's rules say it: it follows the API server in its own time. */

import type { Station } from "../../bed/network.ts";
import { run } from "../../bed/run.ts";
import type { Recorder } from "./recorder.ts";

const EVERY_MS = 500;

/** Notes each change of the set of endpoints; ends with the returned function. */
export function watchProxy(recorder: Recorder, station: Station): () => void {
  const [program = "nsenter", ...prefix] = station.inside;
  let last = "";
  let isEnded = false;
  const look = async (): Promise<void> => {
    const at = recorder.now();
    const rules = await run(program, [...prefix, "nft", "list", "table", "ip", "kube-proxy"]).catch(() => "");
    const endpoints = parseEndpoints(rules);
    if (rules !== "" && endpoints.join() !== last) {
      last = endpoints.join();
      recorder.note({ type: "proxy", endpoints }, at);
    }
    if (!isEnded) timer = setTimeout(() => void look(), EVERY_MS);
  };
  let timer = setTimeout(() => void look(), 0);
  return () => {
    isEnded = true;
    clearTimeout(timer);
  };
}

/** `numgen random mod 2 map { 0 : 10.78.3.11 . 21000, 1 : … }` in the chain of each Service that has endpoints. */
export function parseEndpoints(rules: string): readonly string[] {
  const found = [...rules.matchAll(/\b\d+ : (\d+\.\d+\.\d+\.\d+) \. (\d+)/g)];
  return [...new Set(found.map(([, address, port]) => `${address}:${port}`))].sort();
}
