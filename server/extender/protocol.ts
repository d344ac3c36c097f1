/** The extender protocol of kube-scheduler: its requests as it sends them, and the responses that it reads. Pure. */
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { endOfValue, skipSpace, walkList, walkObject } from "./json-slices.ts";

/** The highest score of a node. */
export const MAX_SCORE = 10;

const containersSchema = z
  .array(
    z.object({
      image: z.string().optional(),
      resources: z
        .object({
          requests: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
          limits: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
        })
        .optional(),
    }),
  )
  .nullish();

const affinitySchema = z
  .object({
    nodeAffinity: z
      .object({
        requiredDuringSchedulingIgnoredDuringExecution: z
          .object({
            nodeSelectorTerms: z
              .array(
                z.object({
                  matchExpressions: z
                    .array(
                      z.object({
                        key: z.string(),
                        operator: z.string(),
                        values: z.array(z.string()).nullish(),
                      }),
                    )
                    .nullish(),
                }),
              )
              .nullish(),
          })
          .nullish(),
      })
      .nullish(),
  })
  .nullish();

const podSchema = z.object({
  metadata: z.object({
    name: z.string().default(""),
    namespace: z.string().default("default"),
    uid: z.string().default(""),
    labels: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.object({
    containers: containersSchema,
    affinity: affinitySchema,
    resourceClaims: z.array(z.unknown()).nullish(),
  }),
});

/** The parts of a pod that are read. */
export type ExtenderPod = z.output<typeof podSchema>;

export interface Candidates {
  readonly names: readonly string[];
  /** Text of the Nodes in the order of their names, if the scheduler sends whole Nodes. */
  readonly nodes?: readonly Uint8Array[] | undefined;
}

export interface ExtenderArgs {
  readonly pod: ExtenderPod;
  /** Undefined if the request has neither NodeNames nor Nodes. */
  readonly candidates: Candidates | undefined;
}

/** Throws ExtenderRequestInvalid. */
export function readArgs(body: Buffer): ExtenderArgs {
  try {
    return readMembers(body);
  } catch (cause) {
    if (cause instanceof MetalbridgeError) throw cause;
    throw invalid(errorMessage(cause), cause);
  }
}

function readMembers(body: Buffer): ExtenderArgs {
  let pod: unknown;
  let named: unknown;
  let listed: Candidates | undefined;
  const parse = (at: number, keep: (value: unknown) => void): number => {
    const end = endOfValue(body, at);
    keep(JSON.parse(body.toString("utf8", at, end)));
    return end;
  };
  const end = walkObject(body, skipSpace(body, 0), {
    Pod: (at) =>
      parse(at, (value) => {
        pod = value;
      }),
    NodeNames: (at) =>
      parse(at, (value) => {
        named = value;
      }),
    Nodes: (at) => {
      if (body[at] === NULL) return endOfValue(body, at);
      const read = readNodes(body, at);
      listed = read.candidates;
      return read.end;
    },
  });
  if (skipSpace(body, end) !== body.length) throw new SyntaxError(`malformed JSON at byte ${end}`);
  const parsed = podSchema.safeParse(pod);
  if (!parsed.success) throw invalid(`Pod.${parsed.error.issues[0]?.path.join(".")} is missing or invalid`);
  if (named === undefined || named === null) return { pod: parsed.data, candidates: listed };
  if (!isNames(named)) throw invalid("NodeNames must be a list of names");
  return { pod: parsed.data, candidates: { names: named } };
}

/** First byte of `null`. */
const NULL = 0x6e;

function readNodes(body: Buffer, at: number): { readonly candidates: Candidates; readonly end: number } {
  const names: string[] = [];
  const nodes: Uint8Array[] = [];
  const readNode = (nodeAt: number): number => {
    let name: string | undefined;
    const end = walkObject(body, nodeAt, {
      metadata: (metadataAt) =>
        walkObject(body, metadataAt, {
          name: (nameAt) => {
            const nameEnd = endOfValue(body, nameAt);
            name = String(JSON.parse(body.toString("utf8", nameAt, nameEnd)));
            return nameEnd;
          },
        }),
    });
    if (name === undefined) throw invalid("a Node has no name");
    names.push(name);
    nodes.push(body.subarray(nodeAt, end));
    return end;
  };
  // An empty list of Go is null.
  const end = walkObject(body, at, {
    items: (listAt) => (body[listAt] === NULL ? endOfValue(body, listAt) : walkList(body, listAt, readNode)),
  });
  return { candidates: { names, nodes }, end };
}

function isNames(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

function invalid(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("ExtenderRequestInvalid", message, undefined, { cause });
}

/** Reasons by node. */
type Failures = ReadonlyMap<string, string>;

/** An ExtenderFilterResult with the nodes that `failed` does not name, in the form in which the request has them. */
export function filterResult({ names, nodes }: Candidates, failed: Failures): Buffer {
  const isKept = (name: string) => !failed.has(name);
  const rest = `"FailedNodes":{},"FailedAndUnresolvableNodes":${JSON.stringify(Object.fromEntries(failed))},"Error":""}`;
  if (nodes === undefined) return Buffer.from(`{"NodeNames":${JSON.stringify(names.filter(isKept))},${rest}`);
  const comma = Buffer.from(",");
  const items = nodes.filter((_, index) => isKept(names[index] ?? "")).flatMap((node) => [comma, node]);
  return Buffer.concat([Buffer.from('{"Nodes":{"items":['), ...items.slice(1), Buffer.from(`]},${rest}`)]);
}

/** An ExtenderFilterResult that fails the request. */
export function filterError(message: string): Buffer {
  return Buffer.from(JSON.stringify({ Error: message }));
}

/** A HostPriorityList. */
export function priorityList(names: readonly string[], scores: readonly number[]): Buffer {
  return Buffer.from(JSON.stringify(names.map((Host, index) => ({ Host, Score: scores[index] ?? 0 }))));
}
