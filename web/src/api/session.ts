/** The reader's session and rights. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { GROUP } from "../../../src/api/group.ts";
import { missingRight } from "../../../src/console/missing-right.ts";
import { type AccessQuestion, CONSOLE_PATH, type Session } from "../../../src/console/protocol.ts";
import { ConsoleError, requestJson, SESSION_PATH } from "./request.ts";

const RIGHTS_MS = 30_000;

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => requestJson<Session>(SESSION_PATH, { signal }),
  staleTime: 60_000,
  // The reader may have signed in in another tab.
  refetchOnWindowFocus: true,
  retry: (count, error) => !(error instanceof ConsoleError && error.status === 401) && count < 2,
});

/** Undefined while it is loaded. */
export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data;
}

export async function signIn(by: { readonly token: string } | { readonly code: string }): Promise<void> {
  await requestJson(SESSION_PATH, { method: "POST", body: by });
}

export async function signOut(): Promise<void> {
  await requestJson(SESSION_PATH, { method: "DELETE" });
}

/** May the reader do it? `why` is for the reader, if not. */
export interface RightState {
  readonly isAllowed: boolean;
  readonly why?: string;
}

/** About a resource of our group, unless `group` says otherwise. */
type Question = Omit<AccessQuestion, "group"> & { readonly group?: string };

export function useRight(question: Question): RightState {
  const full = { group: GROUP, ...question };
  const session = useSession();
  const { data, error } = useQuery(rightQuery(full));
  const isWrite = !["get", "list", "watch"].includes(full.verb);
  if (isWrite && session?.isReadOnly === true) return { isAllowed: false, why: "This console is read-only." };
  if (error !== null) return { isAllowed: false, why: error.message };
  if (data === undefined) return { isAllowed: false, why: "Checking your rights…" };
  if (data) return { isAllowed: true };
  const { message, remedy } = missingRight(full);
  return { isAllowed: false, why: `${message} ${remedy}` };
}

/** Undefined while it is not known, or not asked. */
export function useKnownRight(question: Question, isEnabled = true): boolean | undefined {
  return useQuery({ ...rightQuery({ group: GROUP, ...question }), enabled: isEnabled }).data;
}

function rightQuery(question: AccessQuestion) {
  return { queryKey: ["right", question], queryFn: () => askRight(question), staleTime: RIGHTS_MS };
}

interface Waiting {
  readonly question: AccessQuestion;
  readonly resolve: (isAllowed: boolean) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_QUESTIONS = 64;
let waiting: Waiting[] = [];

/** Questions of one render go in one request. */
function askRight(question: AccessQuestion): Promise<boolean> {
  return new Promise((resolve, reject) => {
    waiting.push({ question, resolve, reject });
    if (waiting.length === 1) setTimeout(() => void sendQuestions(), 0);
  });
}

async function sendQuestions(): Promise<void> {
  const all = waiting;
  waiting = [];
  for (let start = 0; start < all.length; start += MAX_QUESTIONS) {
    const part = all.slice(start, start + MAX_QUESTIONS);
    try {
      const { allowed } = await requestJson<{ readonly allowed: readonly boolean[] }>(
        `${CONSOLE_PATH}/rights`,
        { method: "POST", body: { questions: part.map(({ question }) => question) } },
      );
      for (const [index, { resolve }] of part.entries()) resolve(allowed[index] === true);
    } catch (error) {
      for (const { reject } of part) reject(error);
    }
  }
}
