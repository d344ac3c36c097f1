/** The way of a new service to Ready and to its first answer, with figures, and the reason whenever it is stalled. */

import { useQuery } from "@tanstack/react-query";
import { Check, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { Attention } from "../../../../src/console/rows.ts";
import { askGateway, needsKey } from "../../api/gateway.ts";
import { useSession } from "../../api/session.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { formatDuration } from "../format.ts";
import { Failure, Remedy, Skeleton } from "../notices.tsx";
import { DownloadFigures } from "../states.tsx";
import { type StartingObjects, type StartProgress, type StartStage, startProgressOf } from "./progress.ts";

const LOOKS = { done: "tone-ok", now: "tone-busy", next: "muted", stuck: "tone-warn" } as const;
const WORDS: Readonly<Record<StartStage, string>> = {
  placing: "Placing",
  downloading: "Downloading",
  loading: "Loading",
  ready: "Ready",
};
const STAGES = Object.keys(WORDS) as readonly StartStage[];

/** The way of a new service to Ready, with figures, and the reason whenever it is stalled. */
export function StartSteps({
  progress,
  attention,
  hasReason = true,
  children,
}: {
  readonly progress: StartProgress;
  readonly attention: Attention | undefined;
  /** False where the page says it elsewhere. */
  readonly hasReason?: boolean;
  /** More steps, after Ready. */
  readonly children?: ReactNode;
}) {
  const { stage, download, message, isStuck, replicas } = progress;
  const now = STAGES.indexOf(stage);
  return (
    <div className="stack" aria-live="polite">
      <ol aria-label="Progress">
        {STAGES.map((one, index) => (
          <StartStep
            key={one}
            word={WORDS[one]}
            at={index < now || stage === "ready" ? "done" : index > now ? "next" : isStuck ? "stuck" : "now"}
          >
            {one === stage && download !== undefined && (
              <DownloadFigures label="Downloading" download={download} />
            )}
            {one === "ready" && stage === "ready" && replicas !== undefined && (
              <span className="number">{`${replicas.ready} of ${replicas.desired}`}</span>
            )}
          </StartStep>
        ))}
        {children}
      </ol>
      {hasReason && (stage !== "ready" || isStuck) && message !== "" && (
        <div className={`stack gap-8 start-why ${isStuck ? "tone-warn" : ""}`}>
          <p className="prose">{message}</p>
          {attention !== undefined && <Remedy attention={attention} />}
        </div>
      )}
    </div>
  );
}

export function StartStep({
  word,
  at,
  children,
}: {
  readonly word: string;
  readonly at: "done" | "now" | "next" | "stuck";
  readonly children?: ReactNode;
}) {
  const isCurrent = at === "now" || at === "stuck";
  return (
    <li className={`start-step ${LOOKS[at]}`} aria-current={isCurrent ? "step" : undefined}>
      <span className="start-icon" aria-hidden>
        {at === "done" && <Check size={14} />}
        {at === "now" && <LoaderCircle size={14} />}
        {at === "stuck" && <TriangleAlert size={14} />}
      </span>
      <span className={isCurrent ? "strong" : undefined}>{word}</span>
      <span className="wrap start-detail">{children}</span>
    </li>
  );
}

/** The gateway learns of a new endpoint within seconds. */
const RETRIES = 8;
const RETRY_MS = 1_000;
const MAX_TOKENS = 48;
const QUESTION = "Say hello in one short sentence.";

/** The way of one service to its first answer, from the live objects and one short question through the gateway. */
export function StartOf({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  const { get, rows, refusal } = useObjects(`service/${namespace}/${name}`);
  const row = useList("services").get(`${namespace}/${name}`);
  const service = get("service") as StartingObjects["service"] | undefined;
  if (refusal !== undefined) return <Failure error={refusal} />;
  if (service === undefined) return <Skeleton rows={4} />;
  const ofKind = (kind: string) => rows.filter((one) => (one as { readonly kind: string }).kind === kind);
  const replicas = ofKind("InferenceReplica") as StartingObjects["replicas"];
  const pods = ofKind("Pod") as StartingObjects["pods"];
  const progress = startProgressOf({ service, replicas, pods, row });
  return (
    <StartSteps progress={progress} attention={row?.attention}>
      <FirstAnswer
        service={`${namespace}/${name}`}
        mode={service.status?.mode ?? service.spec.mode ?? "chat"}
        isReady={progress.stage === "ready"}
      />
    </StartSteps>
  );
}

function FirstAnswer({
  service,
  mode,
  isReady,
}: {
  /** namespace/name, which is a name of its model at the gateway. */
  readonly service: string;
  readonly mode: string;
  readonly isReady: boolean;
}) {
  const session = useSession();
  const hasGateway = session?.hasGateway === true;
  const { data, error } = useQuery({
    queryKey: ["first-answer", service],
    queryFn: ({ signal }) => ask(service, mode, signal),
    enabled: isReady && hasGateway,
    staleTime: Number.POSITIVE_INFINITY,
    retry: (count, cause) => count < RETRIES && !needsKey(cause),
    retryDelay: RETRY_MS,
  });
  if (!isReady) return <StartStep word="First answer" at="next" />;
  if (session !== undefined && !hasGateway)
    return (
      <StartStep word="First answer" at="next">
        <span className="muted small">
          No gateway is configured, so the console cannot ask the model a question.
        </span>
      </StartStep>
    );
  if (data !== undefined)
    return (
      <StartStep word="First answer" at="done">
        <q className="first-answer">{data.text}</q>
        <span className="muted small number">{`after ${formatDuration(data.tookMs)}`}</span>
      </StartStep>
    );
  return (
    <StartStep word="First answer" at={error === null ? "now" : "stuck"}>
      <span className="small muted">
        {error === null
          ? "Asking the model a question…"
          : needsKey(error)
            ? "The gateway wants a key. Set one in the playground, and ask there."
            : error.message}
      </span>
    </StartStep>
  );
}

interface FirstReply {
  readonly text: string;
  readonly tookMs: number;
}

interface GatewayReply {
  readonly choices?: readonly {
    readonly message?: { readonly content?: string | null; readonly reasoning_content?: string };
  }[];
  readonly data?: readonly { readonly embedding?: readonly number[] }[];
}

async function ask(model: string, mode: string, signal: AbortSignal): Promise<FirstReply> {
  const startedMs = performance.now();
  const { answer } = await askGateway<GatewayReply>(...questionOf(model, mode), signal);
  return { text: textOf(answer), tookMs: performance.now() - startedMs };
}

/** A short request that any service of the mode answers. */
export function questionOf(model: string, mode: string): [path: string, body: object] {
  if (mode === "embedding") return ["/v1/embeddings", { model, input: QUESTION }];
  if (mode === "rerank") return ["/v1/rerank", { model, query: QUESTION, documents: [QUESTION] }];
  return [
    "/v1/chat/completions",
    { model, max_tokens: MAX_TOKENS, messages: [{ role: "user", content: QUESTION }] },
  ];
}

function textOf({ choices, data }: GatewayReply): string {
  const vector = data?.[0]?.embedding;
  if (vector !== undefined) return `A vector with ${vector.length} dimensions`;
  const message = choices?.[0]?.message;
  const text = message?.content ?? "";
  return text !== "" ? text : (message?.reasoning_content ?? "OK");
}
