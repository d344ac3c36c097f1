/** The dialog that deploys a model. `choice` is what the address says: `new`, or the name of a catalog model. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import type { CatalogAnswer } from "../../../../src/console/catalog.ts";
import { CONSOLE_PATH } from "../../../../src/console/protocol.ts";
import { keepNamespace, useNamespace } from "../../address/search.ts";
import { requestJson } from "../../api/request.ts";
import { useRight } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Failure } from "../../parts/notice.tsx";
import { StartOf } from "../../parts/start/start-of.tsx";
import { text } from "../../texts/text.ts";
import { type Choice, type Deployment, deploymentOf, meaningOf, type YamlState } from "./choice.ts";
import { DeployForm } from "./form.tsx";
import { DeployPreview } from "./preview.tsx";
import { type DeployAction, useDeploy } from "./use-deploy.ts";
import { DeployYaml } from "./yaml.tsx";
import "./deploy.css";

export function Deploy({ choice, onClose }: { readonly choice: string; readonly onClose: () => void }) {
  const action = useDeploy();
  const [target, setTarget] = useState<{ readonly namespace: string; readonly name: string }>();
  const title = target === undefined ? text.frame.deploy : target.name;
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
        <Link
          to={`/services/${service}` as "/"}
          search={keepNamespace}
          className="button button-plain"
          onClick={onClose}
        >
          Open the service
        </Link>
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
    queryFn: ({ signal }) => requestJson<CatalogAnswer<CatalogRecord>>(`${CONSOLE_PATH}/catalog`, { signal }),
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
        <DeployPreview
          choice={choice}
          meaning={meaning}
          deployment={deployment}
          trainedContext={
            choice.from === "catalog"
              ? records.find(({ name }) => name === choice.model)?.context_length
              : undefined
          }
        />
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
  };
}

/** Both objects are needed. */
function useDeployRight(namespace: string) {
  const models = useRight({ verb: "create", resource: "models", namespace });
  const services = useRight({ verb: "create", resource: "inferenceservices", namespace });
  return services.isAllowed ? models : services;
}
