/** A case that a person must look at: cause, object, the cluster's own words, what to do. */
import type { ReactNode } from "react";
import type { Attention } from "../../../src/console/rows.ts";
import { Remedy } from "./remedy.tsx";
import { State } from "./state.tsx";
import { Ago } from "./time.tsx";
import "./attention.css";

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
      <Remedy attention={attention} />
    </article>
  );
}
