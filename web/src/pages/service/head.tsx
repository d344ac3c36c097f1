/** What an application needs of the service, its state with one sentence of why and the remedy, and facts. */

import { Link } from "@tanstack/react-router";
import { hrefOfModel, To } from "../../address/to.tsx";
import { useSession } from "../../api/session.ts";
import { Command } from "../../parts/buttons.tsx";
import { formatBytes, formatCut } from "../../parts/format.ts";
import { Remedy } from "../../parts/notices.tsx";
import { type Fact, Facts } from "../../parts/page.tsx";
import { startProgressOf } from "../../parts/start/progress.ts";
import { questionOf, StartSteps } from "../../parts/start/start.tsx";
import { Ago, State } from "../../parts/states.tsx";
import { conditionOf, type ServiceObjects } from "./objects.ts";

export function Head({ objects }: { readonly objects: ServiceObjects }) {
  return (
    <div className="stack gap-16">
      <ForApplications objects={objects} />
      <Why objects={objects} />
      {isStarting(objects) && (
        <StartSteps progress={startProgressOf(objects)} attention={undefined} hasReason={false} />
      )}
      <Facts facts={factsOf(objects)} />
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
      <div className="wrap">
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

/** What an application needs: where to ask, the name of the model, a request, and where keys are. */
function ForApplications({ objects: { service } }: { readonly objects: ServiceObjects }) {
  const { hasGateway = false, gatewayUrl = "" } = useSession() ?? {};
  const { metadata, spec, status } = service;
  const model = `${metadata.namespace}/${metadata.name}`;
  const base = gatewayUrl.replace(/\/+$/, "");
  const [path, body] = questionOf(model, status?.mode ?? spec.mode ?? "chat");
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  const curl = `curl ${base}${path} -H 'authorization: Bearer mbk_YOUR_KEY' -H 'content-type: application/json' -d '${json}'`;
  return (
    <div className="stack gap-8">
      {hasGateway && (
        <>
          <Line label="Base URL" value={`${base}/v1`} />
          <Line label="Model name" value={model} />
          <Line label="Request" value={curl} />
          <p className="small muted">
            {"The gateway asks for a key: "}
            <Link to={"/gateway" as "/"} search={{ tab: "keys" } as never} className="link">
              create one
            </Link>
            , and put it in place of mbk_YOUR_KEY.
          </p>
        </>
      )}
      <Line label="Endpoint" value={status?.endpoint ?? ""} />
    </div>
  );
}

function Line({ label, value }: { readonly label: string; readonly value: string }) {
  return (
    <div className="line">
      <span className="muted small for-applications">{label}</span>
      {value === "" ? (
        <span className="muted">{`No ${label.toLowerCase()} yet`}</span>
      ) : (
        <Command>{value}</Command>
      )}
    </div>
  );
}

function factsOf({ service, row }: ServiceObjects): readonly Fact[] {
  const { metadata, spec, status } = service;
  const { namespace = "", creationTimestamp } = metadata;
  const name = status?.model?.name ?? spec.modelRef ?? row?.model ?? "";
  const model = (
    <>
      <To path={hrefOfModel({ namespace, name })}>{name}</To>{" "}
      <span className="muted">{status?.model?.quantization}</span>
    </>
  );
  return [
    ["Model", model],
    ["Runtime", status?.runtime ?? spec.runtime],
    ["Runs on", status?.on],
    ["API", status?.mode ?? spec.mode ?? "chat"],
    ["Memory claimed", row && formatBytes(row.claimedBytes)],
    ["Context per request", row?.contextCut && formatCut(row.contextCut)],
    ["Priority", spec.priority],
    ["Age", <Ago key="age" at={creationTimestamp} suffix="" />],
  ];
}
