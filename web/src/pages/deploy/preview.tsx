/** Right side of the dialog: the best machines for the choice, with their memory after it. */
import { useList } from "../../live/hooks.ts";
import { formatCount } from "../../parts/format.ts";
import { MemoryHelp } from "../../parts/memory-bar.tsx";
import type { Choice, Deployment, Meaning } from "./choice.ts";
import { Placement } from "./placement.tsx";
import { placeOf, questionOf } from "./recommend.ts";

const SHOWN = 3;

const NO_MACHINE = {
  Hosts:
    "This deployment runs on hosts, and the cluster has none that reports its memory. Add one, or set spec.hardware.accelerator of the Model in the YAML to run it in pods.",
  Pods: "This deployment runs in pods, and no node has its accelerator. Correct spec.hardware.accelerator of the Model in the YAML, or add a node.",
  Auto: "The cluster has no host and no node that this deployment can use. Add one, or correct spec.hardware.accelerator of the Model in the YAML.",
} as const;

export function DeployPreview({
  choice,
  meaning,
  deployment,
  trainedContext,
}: {
  readonly choice: Choice;
  readonly meaning: Meaning;
  /** The objects that will be created, also if their YAML was edited. */
  readonly deployment: Deployment | undefined;
  /** Of the model in the catalog, in tokens. */
  readonly trainedContext: number | undefined;
}) {
  const hosts = useList("hosts").rows;
  const place = deployment && placeOf(deployment);
  const question = questionOf(choice, meaning, deployment);
  const trained = formatCount(trainedContext);
  return (
    <section className="stack gap-8" aria-label="Where it fits">
      <div className="spread">
        <h3>Where it fits</h3>
        <MemoryHelp />
      </div>
      {place !== undefined && <p className="muted small">{`The service ${place}.`}</p>}
      {trainedContext !== undefined && (question?.context ?? 0) > trainedContext && (
        <p className="small toned tone-bad">
          {`The model was trained for ${trained} tokens: a request gets no more, but memory for ${formatCount(question?.context)} is claimed. Set the context size to ${trained} or less.`}
        </p>
      )}
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
              ? NO_MACHINE[question.on]
              : "The catalog does not know this model. Its memory is known once the controller has read the header of the file; the service then runs where it fits."
          }
        />
      )}
    </section>
  );
}
