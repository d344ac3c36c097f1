/** What kube-proxy really sends connections to, as the kernel's rules say it, and when it had a watch to follow the API server by. */
import { closeSync, existsSync, openSync, readSync, writeFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
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

/** What it makes its rules from. */
export const PROXY_RESOURCES = ["endpointslices", "services"] as const;

/** Flags for the API server to write down each watch of those, into a file of the folder. */
export function auditWatches(dir: string): { readonly args: readonly string[]; readonly file: string } {
  const policy = path.join(dir, "audit-policy.json");
  const resources = [
    { group: "discovery.k8s.io", resources: ["endpointslices"] },
    { group: "", resources: ["services"] },
  ];
  const rules = [{ level: "Metadata", verbs: ["watch"], resources }, { level: "None" }];
  writeFileSync(policy, JSON.stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
  const file = path.join(dir, "audit.log");
  return { args: [`--audit-policy-file=${policy}`, `--audit-log-path=${file}`], file };
}

/** Notes when a watch of the kube-proxy at that address begins and ends: nodes have others. Ends with the returned function. */
export function watchAudit(
  recorder: Recorder,
  file: string,
  { address: of }: Pick<Station, "address">,
): () => void {
  let offset = 0;
  let rest = "";
  const timer = setInterval(() => {
    const read = readFrom(file, offset);
    offset += read.length;
    const lines = (rest + read.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { at, address, ...event } = parseAudit(line) ?? {};
      if (at !== undefined && address === of && "resource" in event)
        recorder.note({ type: "proxyWatch", ...event }, recorder.fromEpoch(at));
    }
  }, EVERY_MS);
  return () => clearInterval(timer);
}

const auditSchema = z.object({
  stage: z.enum(["ResponseStarted", "ResponseComplete", "Panic"]),
  userAgent: z.string().startsWith("kube-proxy/"),
  objectRef: z.object({ resource: z.enum(PROXY_RESOURCES) }),
  sourceIPs: z.tuple([z.string()]),
  stageTimestamp: z.string().transform((text) => Date.parse(text)),
});

/** Undefined for whatever is not the beginning or end of one of its watches. `at`: milliseconds since the epoch. */
export function parseAudit(line: string) {
  if (line === "") return undefined;
  const parsed = auditSchema.safeParse(JSON.parse(line));
  if (!parsed.success) return undefined;
  const { stage, objectRef, sourceIPs, stageTimestamp } = parsed.data;
  const [address] = sourceIPs;
  return { at: stageTimestamp, address, resource: objectRef.resource, isOpen: stage === "ResponseStarted" };
}

function readFrom(file: string, offset: number): Buffer {
  if (!existsSync(file)) return Buffer.alloc(0);
  const descriptor = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(1 << 16);
    return buffer.subarray(0, readSync(descriptor, buffer, 0, buffer.length, offset));
  } finally {
    closeSync(descriptor);
  }
}

/** `numgen random mod 2 map { 0 : 10.78.3.11 . 21000, 1 : … }` in the chain of each Service that has endpoints. */
export function parseEndpoints(rules: string): readonly string[] {
  const found = [...rules.matchAll(/\b\d+ : (\d+\.\d+\.\d+\.\d+) \. (\d+)/g)];
  return [...new Set(found.map(([, address, port]) => `${address}:${port}`))].sort();
}
