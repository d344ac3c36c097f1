/** Empty, failed and loading states. */
import { CircleAlert } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import type { Refusal } from "../../../src/console/protocol.ts";
import { ConsoleError } from "../api/request.ts";
import { Button } from "./button.tsx";
import { Command, CopyButton, WithCommands } from "./copy.tsx";

/** What the page will show, and the one action that fills it. */
export function Empty({
  title,
  why,
  command,
  children,
}: {
  readonly title: string;
  readonly why: string;
  readonly command?: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="stack empty">
      <h2>{title}</h2>
      <p className="muted prose">{why}</p>
      {command !== undefined && <Command>{command}</Command>}
      {children}
    </div>
  );
}

/** Code, what happened, what to do. */
export function Failure({
  error,
  onRetry,
}: {
  readonly error: Error | Refusal;
  readonly onRetry?: () => void;
}) {
  const code = error instanceof ConsoleError || !(error instanceof Error) ? error.code : error.name;
  const remedy = error instanceof Error && !(error instanceof ConsoleError) ? undefined : error.remedy;
  const causes = error instanceof ConsoleError ? error.causes : [];
  return (
    <div className="failure tone-bad" role="alert">
      <CircleAlert size={16} aria-hidden />
      <div className="stack">
        <div>
          <code className="toned">{code}</code>
          <p className="prose">{error.message}</p>
          {causes.length > 0 && (
            <ul>
              {causes.map(({ field, message }) => (
                <li key={field + message}>
                  <code>{field}</code>: {message}
                </li>
              ))}
            </ul>
          )}
          {remedy !== undefined && (
            <p className="muted prose">
              <WithCommands text={remedy} />
            </p>
          )}
        </div>
        <div className="row">
          {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
          <CopyButton value={`${code}: ${error.message}`} label="Copy the error" />
        </div>
      </div>
    </div>
  );
}

const SKELETON_AFTER_MS = 200;

/** Gray bars in the shape of what is loaded; nothing at first, because most answers come sooner. */
export function Skeleton({ rows = 6, height = 36 }: { readonly rows?: number; readonly height?: number }) {
  const [isShown, setIsShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setIsShown(true), SKELETON_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!isShown) return null;
  return (
    <div className="stack skeleton" aria-busy="true">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the bars are all alike
        <span key={row} style={{ height: height - 12 }} />
      ))}
    </div>
  );
}

/** What an action has done. Takes no room while there is nothing to say. */
export function Done({ children }: { readonly children: string }) {
  return (
    <span role="status" className={children === "" ? "visually-hidden" : "small muted"}>
      {children}
    </span>
  );
}
