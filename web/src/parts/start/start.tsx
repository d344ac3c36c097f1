/** The way of a new service to Ready, with figures, and the reason whenever it is stalled. */
import { Check, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { Attention } from "../../../../src/console/rows.ts";
import { Remedy } from "../attention.tsx";
import { formatDuration } from "../format.ts";
import { Progress } from "../progress.tsx";
import type { StartProgress, StartStage } from "./progress.ts";
import { type Download as DownloadSum, downloadText, secondsLeft, shareOf } from "../../../../src/verdicts/download.ts";

const LOOKS = { done: "tone-ok", now: "tone-busy", next: "muted", stuck: "tone-warn" } as const;
const WORDS: Readonly<Record<StartStage, string>> = {
  placing: "Placing",
  downloading: "Downloading",
  loading: "Loading",
  ready: "Ready",
};
const STAGES = Object.keys(WORDS) as readonly StartStage[];

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
            {one === stage && download !== undefined && <Download download={download} />}
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

function Download({ download }: { readonly download: DownloadSum }) {
  const [part, seconds] = [shareOf(download), secondsLeft(download)];
  const left = seconds === undefined ? "" : `, ${formatDuration(seconds * 1_000)} left`;
  return (
    <>
      {part !== undefined && <Progress label="Downloading" part={part} />}
      <span className="muted small number">{`${downloadText(download)}${left}`}</span>
    </>
  );
}
