/** The service, Run or Stop, and the code of the request. */
import { Code, Play, Square } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Button } from "../../../parts/button.tsx";
import { formatCount } from "../../../parts/format.ts";
import { texts } from "../../../texts/playground.ts";
import { CodeDialog } from "../chat/code-dialog.tsx";
import type { SnippetRequest } from "../chat/snippets.ts";
import { AnsweringHost } from "../chat/turns.tsx";
import { canAsk, type Offer } from "../services/offers.ts";

export function RunBar({
  offer,
  label,
  canRun,
  isRunning,
  request,
  onRun,
  onStop,
}: {
  readonly offer: Offer | undefined;
  readonly label: string;
  readonly canRun: boolean;
  readonly isRunning: boolean;
  readonly request: Omit<SnippetRequest, "gatewayUrl">;
  readonly onRun: () => void;
  readonly onStop: () => void;
}) {
  const [hasCode, setHasCode] = useState(false);
  return (
    <div className="row">
      {isRunning ? (
        <Button icon={<Square size={14} aria-hidden />} onClick={onStop}>
          {texts.stop}
        </Button>
      ) : (
        <Button
          look="primary"
          icon={<Play size={14} aria-hidden />}
          disabled={!canRun || offer === undefined || !canAsk(offer)}
          onClick={onRun}
        >
          {label}
        </Button>
      )}
      <Button look="quiet" icon={<Code size={14} aria-hidden />} onClick={() => setHasCode(true)}>
        {texts.showCode}
      </Button>
      {hasCode && <CodeDialog request={request} onClose={() => setHasCode(false)} />}
    </div>
  );
}

/** How long the answer took, and which host gave it. */
export function RunFigures({
  ranMs,
  host,
  children,
}: {
  readonly ranMs: number;
  readonly host: string | undefined;
  readonly children?: ReactNode;
}) {
  return (
    <p className="answer-figures muted small number">
      {children}
      <span>{formatCount(Math.round(ranMs))} ms</span>
      <AnsweringHost host={host} />
    </p>
  );
}
