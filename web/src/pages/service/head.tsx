import { formatBytes, formatCut } from "../../parts/format.ts";
import { startProgressOf } from "../../parts/start/progress.ts";
import { StartSteps } from "../../parts/start/start.tsx";
import { conditionOf, type ServiceObjects } from "./objects.ts";
import { Command } from "../../parts/buttons.tsx";
import { Remedy } from "../../parts/notices.tsx";
import { Ago, State } from "../../parts/states.tsx";
import { To } from "../../address/to.tsx";

export function Head({ objects }: { readonly objects: ServiceObjects }) {
  return (
    <div className="stack gap-16">
      <Why objects={objects} />
      {isStarting(objects) && (
        <StartSteps progress={startProgressOf(objects)} attention={undefined} hasReason={false} />
      )}
      <Endpoint endpoint={objects.service.status?.endpoint} />
      <Facts objects={objects} />
    </div>
  );
}

/** From the deployment until it serves, also after an update of a service that never did. */
function isStarting({ service: { spec, status }, row }: ServiceObjects): boolean {
  const phase = status?.phase ?? "Pending";
  const isOnTheWay = ["Pending", "Creating", "Progressing"].includes(phase) || row?.state.level === "busy";
  return isOnTheWay && (status?.readyReplicas ?? 0) === 0 && !spec.suspend && spec.replicas > 0;
}

/** The words of the condition, as they are. */
function Why({ objects: { service, row } }: { readonly objects: ServiceObjects }) {
  const { status } = service;
  const attention = row?.attention;
  const warnings = conditionOf(service, "Warnings");
  const message = attention?.message ?? status?.message ?? "";
  const state = row?.state ?? { word: status?.phase ?? "Unknown", level: "idle" as const };
  const count = `${row?.ready ?? status?.readyReplicas ?? 0} of ${row?.desired ?? status?.desiredReplicas ?? 0} replicas ready`;
  return (
    <section className={`stack gap-8 attention tone-${state.level}`} aria-live="polite">
      <div className="wrap attention-head">
        <span className="strong">
          <State state={state} />
        </span>
        <span className="muted small number">{count} </span>
        {attention?.since !== undefined && (
          <span className="muted small">
            <Ago at={attention.since} />
          </span>
        )}
      </div>
      {message !== "" && message !== count && <p className="prose attention-message">{message}</p>}
      {attention !== undefined && <Remedy attention={attention} />}
      {warnings?.status === "True" && <p className="prose muted">{warnings.message}</p>}
    </section>
  );
}

function Endpoint({ endpoint }: { readonly endpoint: string | undefined }) {
  return (
    <div className="line">
      <span className="muted small">Endpoint</span>
      {endpoint === undefined ? (
        <span className="muted">No endpoint yet</span>
      ) : (
        <Command>{endpoint}</Command>
      )}
    </div>
  );
}

function Facts({ objects: { service, row } }: { readonly objects: ServiceObjects }) {
  const { metadata, spec, status } = service;
  const model = status?.model?.name ?? spec.modelRef ?? row?.model ?? "";
  return (
    <dl className="facts service-facts">
      <div>
        <dt>Model</dt>
        <dd>
          <To path={`/models/${metadata.namespace}/${model}`}>{model}</To>{" "}
          <span className="muted">{status?.model?.quantization}</span>
        </dd>
      </div>
      <Fact name="Runtime" value={status?.runtime ?? spec.runtime} />
      <Fact name="Runs on" value={status?.on} />
      <Fact name="API" value={status?.mode ?? spec.mode ?? "chat"} />
      <Fact name="Memory claimed" value={row === undefined ? undefined : formatBytes(row.claimedBytes)} />
      {row?.contextCut !== undefined && <Fact name="Context per request" value={formatCut(row.contextCut)} />}
      <Fact name="Priority" value={spec.priority} />
      <div>
        <dt>Age</dt>
        <dd>
          <Ago at={metadata.creationTimestamp} suffix="" />
        </dd>
      </div>
    </dl>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string | undefined }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value === undefined || value === "" ? "–" : value}</dd>
    </div>
  );
}
