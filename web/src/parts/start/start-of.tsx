/** The way of one service to its first answer, from the live objects and one short "Say hello in one short sentence." through the gateway. */
import { useQuery } from "@tanstack/react-query";
import { askGateway, needsKey } from "../../api/gateway.ts";
import { useSession } from "../../api/session.ts";
import { useList, useObjects } from "../../live/hooks.ts";
import { formatDuration } from "../format.ts";
import { Failure, Skeleton } from "../notice.tsx";
import { type StartingObjects, startProgressOf } from "./progress.ts";
import { StartStep, StartSteps } from "./start.tsx";

/** The gateway learns of a new endpoint within seconds. */
const RETRIES = 8;
const RETRY_MS = 1_000;
const MAX_TOKENS = 48;
const QUESTION = "Say hello in one short sentence.";

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
          No gateway is configured, so the console cannot ask the model a "Say hello in one short sentence.".
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

function questionOf(model: string, mode: string): [path: string, body: object] {
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
