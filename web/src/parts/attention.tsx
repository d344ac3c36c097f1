/** A case that a person must look at: cause, object, the cluster's own words, what to do. */
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { UNCORDON } from "../../../src/api/host-change.ts";
import type { Attention } from "../../../src/console/rows.ts";
import { mergePatch } from "../api/kube.ts";
import { useRight } from "../api/session.ts";
import { Button } from "./button.tsx";
import { Command, WithCommands } from "./copy.tsx";
import { Failure } from "./notice.tsx";
import { State } from "./state.tsx";
import { Ago } from "./time.tsx";

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
      <header className="wrap attention-head">
        <span className="strong">
          <State state={{ word: reason, level }} />
        </span>
        {about !== undefined && <span className="wrap attention-about">{about}</span>}
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
