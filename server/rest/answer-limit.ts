/** Limits the responses in progress, because unread responses stay in memory. */
import type { ServerResponse } from "node:http";

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
