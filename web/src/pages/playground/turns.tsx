/** The turns of a conversation: questions, and answers with their figures. */
import { Pencil, RefreshCw } from "lucide-react";
import { type KeyboardEvent, memo, type ReactNode, useState } from "react";
import { Button, CopyButton, IconButton } from "../../parts/buttons.tsx";
import { formatCount, formatRate } from "../../parts/format.ts";
import { GatewayFailure } from "../../parts/gateway-key-form.tsx";
import { Tag } from "../../parts/states.tsx";
import { CodeBlock } from "./code.tsx";
import { type AnswerTurn, isBusy, regenerate, resend, type Turn } from "./conversation.ts";
import { type Block, parseMarkdown, parseSpans } from "./markdown.ts";
import type { UserTurn } from "./request.ts";
import { figuresOf } from "./stream.ts";

export function Turns({ turns, isIdle }: { readonly turns: readonly Turn[]; readonly isIdle: boolean }) {
  return (
    <ol className="stack gap-24 turns">
      {turns.map((turn) => (
        <li key={turn.id}>
          {turn.role === "user" ? <Question turn={turn} /> : <Answer turn={turn} isIdle={isIdle} />}
        </li>
      ))}
    </ol>
  );
}

const Question = memo(({ turn }: { readonly turn: UserTurn }) => {
  const [isEditing, setIsEditing] = useState(false);
  if (isEditing) return <QuestionEditor turn={turn} onClose={() => setIsEditing(false)} />;
  return (
    <div className="question">
      <div className="question-text" dir="auto">
        {turn.images.map((url) => (
          <img key={url} src={url} alt="" />
        ))}
        {turn.text}
      </div>
      <IconButton label="Edit" onClick={() => setIsEditing(true)}>
        <Pencil size={14} aria-hidden />
      </IconButton>
    </div>
  );
});

function QuestionEditor({ turn, onClose }: { readonly turn: UserTurn; readonly onClose: () => void }) {
  const [value, setValue] = useState(turn.text);
  const isEmpty = value.trim() === "" && turn.images.length === 0;
  const submit = (): void => {
    if (isEmpty) return;
    onClose();
    resend(turn.id, value);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
  };
  return (
    <div className="stack">
      <textarea
        ref={focusOnce}
        rows={3}
        aria-label="Edit"
        value={value}
        onChange={({ target }) => setValue(target.value)}
        onKeyDown={onKey}
      />
      <div className="row">
        <Button look="primary" disabled={isEmpty} onClick={submit}>
          Send again
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </div>
  );
}

/** The reader has just asked to edit it. */
function focusOnce(field: HTMLTextAreaElement | null): void {
  field?.focus();
}

interface AnswerProps {
  readonly turn: AnswerTurn;
  readonly isIdle: boolean;
}

const Answer = memo(({ turn, isIdle }: AnswerProps) => {
  const { text, reasoning, state } = turn;
  return (
    <article className="stack gap-8" aria-busy={isBusy(turn)} aria-label={turn.service}>
      {reasoning !== "" && (
        <details className="thoughts" open={text === ""}>
          <summary className="muted small">Thoughts</summary>
          <p dir="auto">{reasoning}</p>
        </details>
      )}
      {state.at === "waiting" && (
        <p className="muted">
          {isIdle ? "The service is idle. The request starts it…" : "Waiting for the first token…"}
        </p>
      )}
      {text !== "" && <Markdown text={text.trimStart()} />}
      {state.at === "failed" && <GatewayFailure error={state.error} onRetry={() => regenerate(turn.id)} />}
      <footer className="wrap answer-foot">
        <AnswerFigures turn={turn} />
        {!isBusy(turn) && (
          <span className="answer-actions">
            {text !== "" && <CopyButton value={text} label="Copy the answer" />}
            {state.at !== "failed" && (
              <IconButton label="Answer again" onClick={() => regenerate(turn.id)}>
                <RefreshCw size={14} aria-hidden />
              </IconButton>
            )}
          </span>
        )}
      </footer>
    </article>
  );
});

function AnswerFigures({ turn: { timing, state, host } }: { readonly turn: AnswerTurn }) {
  const { firstTokenMs, tokensPerSecond, tokens, promptTokens, isEstimated } = figuresOf(timing);
  const isOver = state.at === "done" || state.at === "stopped";
  return (
    <span className="wrap muted small number">
      {state.at === "stopped" && <Tag>Stopped</Tag>}
      {state.at === "done" && state.finish === "length" && (
        <Tag level="warn">Cut at the maximum of tokens</Tag>
      )}
      {firstTokenMs !== undefined && <span>First token {formatMs(firstTokenMs)}</span>}
      {tokensPerSecond !== undefined && isOver && <span>{formatRate(tokensPerSecond)} tokens/s</span>}
      {tokens > 0 && (
        <span
          title={isEstimated && isOver ? "The engine reports no usage: counted from the stream." : undefined}
        >
          {isEstimated ? "≈ " : ""}
          {formatCount(tokens)} tokens
          {promptTokens !== undefined && `, ${formatCount(promptTokens)} in the prompt`}
        </span>
      )}
      <AnsweringHost host={host} />
    </span>
  );
}

export function AnsweringHost({ host }: { readonly host: string | undefined }) {
  if (host === undefined) return null;
  return (
    <span>
      on <bdi>{host}</bdi>
    </span>
  );
}

function formatMs(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Markdown as React elements. A block is rendered again only if its text has changed. */
function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="stack markdown" dir="auto">
      {parseMarkdown(text).map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks are only added at the end
        <MarkdownBlock key={index} block={block} />
      ))}
    </div>
  );
}

const MarkdownBlock = memo(
  ({ block }: { readonly block: Block }) => renderBlock(block),
  (before, after) => JSON.stringify(before.block) === JSON.stringify(after.block),
);

function renderBlock(block: Block): ReactNode {
  switch (block.kind) {
    case "paragraph":
      return <p>{renderSpans(block.text)}</p>;
    case "heading":
      return <h3>{renderSpans(block.text)}</h3>;
    case "code":
      return <CodeBlock language={block.language} text={block.text} />;
    case "list":
      return (
        <ul>
          {block.items.map(({ depth, marker, text }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items are only added at the end
            <li key={index} style={{ marginInlineStart: depth * 20 }}>
              <span className="markdown-marker" aria-hidden={!block.isOrdered}>
                {/^\d/.test(marker) ? marker : "•"}
              </span>
              <span>{renderSpans(text)}</span>
            </li>
          ))}
        </ul>
      );
    default:
      return block satisfies never;
  }
}

const TAGS = { text: "span", bold: "strong", italic: "em", code: "code" } as const;

function renderSpans(text: string): ReactNode {
  return parseSpans(text).map(({ kind, text: content }, index) => {
    const Tag = TAGS[kind];
    // biome-ignore lint/suspicious/noArrayIndexKey: spans are only added at the end
    return <Tag key={index}>{content}</Tag>;
  });
}
