/** Responses in memory: encoded row by row with their ETag, because large strings stayed in memory until the next collection, and limited while clients read them. */
import { createHash } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { RouteResponse } from "./routes.ts";

export interface Encoded {
  readonly chunks: readonly Buffer[];
  readonly bytes: number;
  /** Weak, because it ignores the times of nodes. All replicas of the server compute the same tag. */
  readonly tag: string;
  /** Releases the memory; the chunks must not be read afterwards. */
  readonly release: () => void;
}

export type Encode = (answer: RouteResponse) => Encoded;

/** Times of the last report change constantly and do not count as a change of the response. */
const TIMES = /"(lastSeen|LastSeen)":"[^"]*"/g;
const CHUNK_BYTES = 64 * 1024;
/** Reuses up to two megabytes. */
const MAX_FREE = 32;

/** Reuses the memory of released responses. */
export function createEncode(): Encode {
  const free: Buffer[] = [];
  return (answer) => {
    const taken: Buffer[] = [];
    const chunks: Buffer[] = [];
    const tag = createHash("sha256");
    let current: Buffer = Buffer.alloc(0);
    let used = 0;
    let bytes = 0;
    const close = () => {
      if (used > 0) chunks.push(current.subarray(0, used));
    };
    for (const text of textOf(answer)) {
      countIn(tag, text);
      const size = Buffer.byteLength(text);
      if (used + size > current.length) {
        close();
        current =
          size > CHUNK_BYTES
            ? Buffer.allocUnsafeSlow(size)
            : (free.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES));
        taken.push(current);
        used = 0;
      }
      used += current.write(text, used);
      bytes += size;
    }
    close();
    return {
      chunks,
      bytes,
      tag: `W/"${tag.digest("base64url").slice(0, 27)}"`,
      release: () => {
        for (const one of taken.splice(0))
          if (one.length === CHUNK_BYTES && free.length < MAX_FREE) free.push(one);
      },
    };
  };
}

export function withoutTimes(text: string): string {
  return text.replaceAll(TIMES, "");
}

function* textOf({ body, list }: RouteResponse): Iterable<string> {
  const rest = JSON.stringify(body);
  if (list === undefined) return yield rest;
  yield `{${JSON.stringify(list.name)}:[`;
  let isFirst = true;
  for (const row of list.rows) {
    yield isFirst ? JSON.stringify(row) : `,${JSON.stringify(row)}`;
    isFirst = false;
  }
  yield rest === "{}" ? "]}" : `],${rest.slice(1)}`;
}

/** Hashes everything except the times. */
function countIn(hash: ReturnType<typeof createHash>, text: string): void {
  let from = 0;
  for (const { index, 0: time } of text.matchAll(TIMES)) {
    hash.update(text.slice(from, index));
    from = index + time.length;
  }
  hash.update(from === 0 ? text : text.slice(from));
}

/** Limits the responses in progress, because unread responses stay in memory. */
export interface AnswerLimit {
  /** False if the user, or all users together, have too many. The place is free again when the response closes. */
  readonly take: (user: string, response: Pick<ServerResponse, "once">) => boolean;
}

export const ANSWER_LIMITS = { all: 64, ofUser: 16 };

export function createAnswerLimit(limits: typeof ANSWER_LIMITS = ANSWER_LIMITS): AnswerLimit {
  const underWay = new Map<string, number>();
  let all = 0;
  return {
    take: (user, response) => {
      const own = underWay.get(user) ?? 0;
      if (all >= limits.all || own >= limits.ofUser) return false;
      all += 1;
      underWay.set(user, own + 1);
      response.once("close", () => {
        all -= 1;
        const left = (underWay.get(user) ?? 1) - 1;
        if (left === 0) underWay.delete(user);
        else underWay.set(user, left);
      });
      return true;
    },
  };
}
