/** Empty, failed and loading states, and cases that a person must look at. */

import { useMutation } from "@tanstack/react-query";
import { CircleAlert } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { UNCORDON } from "../../../src/api/host-change.ts";
import type { ApiRefusal } from "../../../src/console/protocol.ts";
import type { Attention } from "../../../src/console/rows.ts";
import { mergePatch } from "../api/kube.ts";
import { ConsoleError } from "../api/request.ts";
import { useRight } from "../api/session.ts";
import { Button, Command, CopyButton, WithCommands } from "./buttons.tsx";
import { Ago, State } from "./states.tsx";

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
  readonly error: Error | ApiRefusal;
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

/** A case that a person must look at: cause, object, the cluster's own words, what to do. */
export function AttentionNotice({
  attention,
  about,
}: {
  readonly attention: Attention;
  /** The objects, as links. Absent on the object's own page. */
  readonly about?: ReactNode;
}) {
  const { level, reason, message, since } = attention;
  return (
    <article className={`stack gap-8 attention tone-${level}`}>
      <header className="wrap">
        <span className="strong attention-message">
          <State state={{ word: message === "" ? reason : message, level }} />
        </span>
        {about !== undefined && <span className="wrap attention-about">{about}</span>}
        {since !== undefined && (
          <span className="attention-since muted small">
            <Ago at={since} />
          </span>
        )}
      </header>
      {message !== "" && <code className="muted">{reason}</code>}
      <Remedy attention={attention} />
    </article>
  );
}

/** What to do: in words, as a command to copy, and as a button for what can be done here. */
export function Remedy({ attention }: { readonly attention: Attention }) {
  const { remedy, command, cordoned = [] } = attention;
  return (
    <>
      {remedy !== undefined && (
        <p className="prose muted attention-message">
          <WithCommands text={sentence(remedy)} />
        </p>
      )}
      {command !== undefined && (
        <div className="row">
          <Command>{command}</Command>
        </div>
      )}
      {cordoned.map((host) => (
        <Uncordon key={host} host={host} />
      ))}
    </>
  );
}

function Uncordon({ host }: { readonly host: string }) {
  const right = useRight({ verb: "patch", resource: "hosts", name: host });
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => mergePatch({ resource: "hosts", name: host }, { spec: UNCORDON }),
  });
  return (
    <>
      <div className="row">
        <span className="prose">{`Host ${host} is cordoned: no new replicas start on it.`}</span>
        <Button right={right} disabled={isPending} onClick={() => mutate()}>
          {`Uncordon ${host}`}
        </Button>
      </div>
      {error !== null && <Failure error={error} />}
    </>
  );
}

/** Remedies of the catalog are clauses. */
function sentence(clause: string): string {
  const words = clause.charAt(0).toUpperCase() + clause.slice(1);
  return /[.!?…)`]$/.test(words) ? words : `${words}.`;
}
