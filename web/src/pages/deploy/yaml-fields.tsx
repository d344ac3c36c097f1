/** The editor of the objects of a deployment. */
import { Button } from "../../parts/buttons.tsx";
import { parseYaml, printYaml, type YamlDocument, type YamlFault } from "../../parts/yaml/documents.ts";
import { YamlEditor } from "../../parts/yaml/editor.tsx";
import type { Deployment, YamlState } from "./choice.ts";
import type { DeployFault } from "./use-deploy.ts";

export interface DeployYamlProps {
  /** The deployment that the fields describe. */
  readonly deployment: Deployment | undefined;
  readonly faults: readonly DeployFault[];
  readonly edited: YamlState | undefined;
  readonly onEdit: (edited: YamlState | undefined) => void;
}

const ROWS = 20;

export function YamlFields({ deployment, faults, edited, onEdit }: DeployYamlProps) {
  const text =
    edited?.text ?? (deployment === undefined ? "" : printYaml(deployment.model, deployment.service));
  const parsed = parseYaml(text);
  const documents = parsed.at === "parsed" ? parsed.documents : [];
  const marked = parsed.at === "invalid" ? parsed.faults : [...shapeFaults(documents), ...refused()];
  function refused(): readonly YamlFault[] {
    return faults.map(({ document, path, message }) => ({
      line: documents.find(isOfKind(document === 0 ? "Model" : "InferenceService"))?.lineOf(path) ?? 1,
      message: path === "" ? message : `${path}: ${message}`,
    }));
  }
  return (
    <div className="stack gap-8">
      {edited !== undefined && (
        <div className="spread small">
          <span className="muted">Edited by hand: the fields above no longer change it.</span>
          <Button look="quiet" onClick={() => onEdit(undefined)}>
            Use the fields again
          </Button>
        </div>
      )}
      <YamlEditor
        label="YAML"
        value={text}
        faults={marked}
        rows={ROWS}
        onChange={(next) => onEdit({ text: next, deployment: deploymentOf(next) })}
      />
    </div>
  );
}

/** Undefined if it is not one Model and one service. */
function deploymentOf(text: string): Deployment | undefined {
  const parsed = parseYaml(text);
  if (parsed.at === "invalid" || shapeFaults(parsed.documents).length > 0) return undefined;
  const model = parsed.documents.find(isOfKind("Model"))?.value;
  const service = parsed.documents.find(isOfKind("InferenceService"))?.value;
  return { model, service } as unknown as Deployment;
}

function shapeFaults(documents: readonly YamlDocument[]): readonly YamlFault[] {
  const wrong = documents.filter((one) => !KINDS.some((kind) => isOfKind(kind)(one)));
  const isComplete = documents.length === 2 && KINDS.every((kind) => documents.some(isOfKind(kind)));
  return [
    ...wrong.map(({ lineOf }) => ({
      line: lineOf("kind"),
      message: "kind must be Model or InferenceService.",
    })),
    ...(wrong.length > 0 || isComplete
      ? []
      : [{ line: 1, message: "Write one Model and one InferenceService." }]),
    ...documents.flatMap(missingFields),
  ];
}

const KINDS = ["Model", "InferenceService"] as const;

/** What the requests need. */
function missingFields({ value, lineOf }: YamlDocument): readonly YamlFault[] {
  const { name, namespace } = (value.metadata ?? {}) as {
    readonly name?: unknown;
    readonly namespace?: unknown;
  };
  const needed = { "metadata.name": name, "metadata.namespace": namespace, spec: value.spec };
  return Object.entries(needed).flatMap(([field, given]) =>
    given === undefined || given === null || given === ""
      ? { line: lineOf(field), message: `${field} is missing.` }
      : [],
  );
}

function isOfKind(kind: string) {
  return ({ value }: YamlDocument): boolean => value.kind === kind;
}
