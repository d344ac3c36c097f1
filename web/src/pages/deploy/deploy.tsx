/** The dialog that deploys a model. `choice` is what the address says: `new`, or the name of a catalog model. */

import { useQuery } from "@tanstack/react-query";
import { Link, lazyRouteComponent } from "@tanstack/react-router";
import { Suspense, useMemo, useState } from "react";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import { CONSOLE_PATH } from "../../../../src/console/protocol.ts";
import { keepNamespace, useNamespace } from "../../address/search.ts";
import { requestJson } from "../../api/request.ts";
import { useRight } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { Dialog } from "../../parts/dialogs.tsx";
import { MemoryHelp } from "../../parts/machines.tsx";
import { Failure, Skeleton } from "../../parts/notices.tsx";
import { Placement } from "../../parts/placement/placement.tsx";
import {
  type Choice,
  type Deployment,
  deploymentOf,
  type Meaning,
  meaningOf,
  placeOf,
  questionOf,
  type YamlState,
} from "./choice.ts";
import { DeployForm } from "./form.tsx";
import { type DeployAction, useDeploy } from "./use-deploy.ts";
import type { DeployYamlProps } from "./yaml-fields.tsx";
import "./deploy.css";
import type { UsableMachines } from "../../../../src/capacity/runs-on.ts";
import type { CatalogResponse } from "../../../../src/console/catalog.ts";
import { To } from "../../address/to.tsx";
import { StartOf } from "../../parts/start/start.tsx";

export function Deploy({ choice, onClose }: { readonly choice: string; readonly onClose: () => void }) {
  const action = useDeploy();
  const [target, setTarget] = useState<{ readonly namespace: string; readonly name: string }>();
  const title = target === undefined ? "Deploy a model" : target.name;
  return (
    <Dialog title={title} size="large" isOpen isForm onClose={onClose}>
      {target !== undefined && action.at === "created" ? (
        <Started {...target} onClose={onClose} />
      ) : (
        <Choosing
          asked={choice === "new" ? "" : choice}
          action={action}
          onSubmit={(deployment) => {
            const { name, namespace = "default" } = deployment.service.metadata;
            setTarget({ name, namespace });
            void action.deploy(deployment);
          }}
        />
      )}
    </Dialog>
  );
}

/** After the objects are created: the way to the first answer. */
function Started({
  namespace,
  name,
  onClose,
}: {
  readonly namespace: string;
  readonly name: string;
  readonly onClose: () => void;
}) {
  const service = `${namespace}/${name}`;
  return (
    <div className="stack">
      <StartOf namespace={namespace} name={name} />
      <p className="muted small">
        You can close this dialog at any time: the page of the service shows the same.
      </p>
      <footer className="row end">
        <To path={`/services/${service}`} className="button button-plain" onClick={onClose}>
          Open the service
        </To>
        <Link
          to={"/playground" as "/"}
          search={(before: object) => ({ ...(keepNamespace(before) as object), service }) as never}
          className="button button-primary"
          onClick={onClose}
        >
          Open in playground
        </Link>
      </footer>
    </div>
  );
}

const NO_RECORDS: readonly CatalogRecord[] = [];

function Choosing({
  asked,
  action,
  onSubmit,
}: {
  readonly asked: string;
  readonly action: DeployAction;
  readonly onSubmit: (deployment: Deployment) => void;
}) {
  const namespace = useNamespace();
  const [choice, setChoice] = useState<Choice>(() => initialChoice(asked, namespace));
  const [yaml, setYaml] = useState<YamlState>();
  const catalog = useQuery({
    queryKey: ["catalog"],
    queryFn: ({ signal }) =>
      requestJson<CatalogResponse<CatalogRecord>>(`${CONSOLE_PATH}/catalog`, { signal }),
    staleTime: 30_000,
  });
  const records = catalog.data?.models ?? NO_RECORDS;
  const meaning = useMemo(() => meaningOf(choice, records), [choice, records]);
  const deployment = deploymentOf(meaning, yaml);
  const right = useDeployRight(deployment?.service.metadata.namespace ?? choice.namespace);
  const change = (changes: Partial<Choice>): void => {
    action.forget();
    setChoice((before) => ({ ...before, ...changes }));
  };
  return (
    <form
      className="stack gap-16"
      onSubmit={(event) => {
        event.preventDefault();
        if (deployment !== undefined && right.isAllowed) onSubmit(deployment);
      }}
    >
      <div className="deploy-columns">
        <DeployForm
          choice={choice}
          onChange={change}
          meaning={meaning}
          faults={action.faults}
          catalog={catalog.data}
          catalogError={catalog.error}
          isOverridden={yaml !== undefined}
        />
        <DeployPreview choice={choice} meaning={meaning} deployment={deployment} />
      </div>
      <DeployYaml
        deployment={meaning.at === "deployment" ? meaning.deployment : undefined}
        faults={action.faults}
        edited={yaml}
        onEdit={(next) => {
          action.forget();
          setYaml(next);
        }}
      />
      {action.failure !== undefined && <Failure error={action.failure} />}
      <footer className="row end">
        <Button
          type="submit"
          look="primary"
          right={right}
          disabled={deployment === undefined || action.at === "busy"}
        >
          {action.at === "busy" ? "Checking…" : "Deploy"}
        </Button>
      </footer>
    </form>
  );
}

function initialChoice(asked: string, namespace: string): Choice {
  const isSource = /^[a-z0-9+.-]+:\/\/|^\//i.test(asked);
  return {
    from: isSource ? "source" : "catalog",
    model: isSource ? "" : asked,
    source: isSource ? asked : "",
    name: "",
    namespace: namespace === "" ? "default" : namespace,
    quantization: "",
    contextSize: "",
    replicas: "1",
    cpuLimit: "",
    memoryLimit: "",
    objective: "",
  };
}

/** Both objects are needed. */
function useDeployRight(namespace: string) {
  const models = useRight({ verb: "create", resource: "models", namespace });
  const services = useRight({ verb: "create", resource: "inferenceservices", namespace });
  return services.isAllowed ? models : services;
}

const SHOWN = 3;

const NO_MACHINE = {
  Hosts:
    "This deployment runs on hosts, and the cluster has none that reports its memory. Add one, or set spec.hardware.accelerator of the Model in the YAML to run it in pods.",
  Pods: "This deployment runs in pods, and no node has its accelerator. Correct spec.hardware.accelerator of the Model in the YAML, or add a node.",
  narrowed:
    "No machine that this deployment can use has the names or labels that the YAML asks for: see spec.placement, spec.nodeSelector and spec.affinity of the service, and spec.flavors of the Model.",
  Auto: "The cluster has no host and no node that this deployment can use. Add one, or correct spec.hardware.accelerator of the Model in the YAML.",
} as const;

function isNarrowed({ hosts, hostSelectors, nodeSelectors }: UsableMachines): boolean {
  return (hosts ?? hostSelectors ?? nodeSelectors) !== undefined;
}

/** Right side of the dialog: the best machines for the choice, with their memory after it. */
function DeployPreview({
  choice,
  meaning,
  deployment,
}: {
  readonly choice: Choice;
  readonly meaning: Meaning;
  /** The objects that will be created, also if their YAML was edited. */
  readonly deployment: Deployment | undefined;
}) {
  const hosts = useList("hosts").rows;
  const place = deployment && placeOf(deployment);
  const question = questionOf(choice, meaning, deployment);
  return (
    <section className="stack gap-8" aria-label="Where it fits">
      <div className="spread">
        <h3>Where it fits</h3>
        <MemoryHelp />
      </div>
      {place !== undefined && <p className="muted small">{`The service ${place}.`}</p>}
      {question === undefined ? (
        <p className="muted">Choose a model, and the machines that fit it appear here.</p>
      ) : (
        <Placement
          question={question}
          hosts={hosts}
          label={meaning.name}
          replicas={deployment?.service.spec.replicas ?? 1}
          max={SHOWN}
          noneOf={(isKnown) =>
            isKnown
              ? NO_MACHINE[isNarrowed(question) ? "narrowed" : question.on]
              : "The catalog does not know this model. Its memory is known once the controller has read the header of the file; the service then runs where it fits."
          }
        />
      )}
    </section>
  );
}

const YamlFields = lazyRouteComponent(() => import("./yaml-fields.tsx"), "YamlFields");

/** The objects as YAML, collapsed. An edit replaces what the fields say. */
function DeployYaml(props: DeployYamlProps) {
  const [isOpen, setIsOpen] = useState(false);
  const { deployment, edited, faults } = props;
  if (deployment === undefined && edited === undefined) return null;
  // What the form has no field for can be mended in the YAML only.
  const mustOpen = faults.some(({ field }) => field === "yaml") || edited !== undefined;
  return (
    <details
      className="deploy-yaml"
      open={isOpen || mustOpen}
      onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}
    >
      <summary>YAML</summary>
      {(isOpen || mustOpen) && (
        <Suspense fallback={<Skeleton rows={6} height={20} />}>
          <YamlFields {...props} />
        </Suspense>
      )}
    </details>
  );
}
