/** A case that a person must look at: cause, object, the cluster's own words, what to do. */
import type { ReactNode } from "react";
import type { Attention } from "../../../src/console/rows.ts";
import { Command } from "./copy.tsx";
import { State } from "./state.tsx";
import { Ago } from "./time.tsx";
import "./attention.css";

export function AttentionNotice({
  attention: { level, reason, message, remedy, command, since },
  about,
  actions,
}: {
  readonly attention: Attention;
  /** The objects, as links. Absent on the object's own page. */
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
}) {
  return (
    <article className={`attention attention-${level}`}>
      <header className="attention-head">
        <State state={{ word: reason, level }} />
        {about !== undefined && <span className="attention-about">{about}</span>}
        {since !== undefined && (
          <span className="attention-since muted small">
            <Ago at={since} />
          </span>
        )}
      </header>
      {message !== "" && <p className="prose attention-message">{message}</p>}
      {remedy !== undefined && <p className="prose muted attention-message">{sentence(remedy)}</p>}
      {(command !== undefined || actions !== undefined) && (
        <footer className="row">
          {command !== undefined && <Command>{command}</Command>}
          {actions}
        </footer>
      )}
    </article>
  );
}

/** Remedies of the catalog are clauses. */
function sentence(clause: string): string {
  const text = clause.charAt(0).toUpperCase() + clause.slice(1);
  return /[.!?…)]$/.test(text) ? text : `${text}.`;
}
