/** Creates what `metalbridge deploy` creates, after a dry run of both objects. */
import { useState } from "react";
import { type ApiObject, createObject, listObjects } from "../../api/kube.ts";
import { ConsoleError } from "../../api/request.ts";
import { allFieldErrors } from "../../parts/yaml/field-errors.ts";
import { type ChoiceField, type Deployment, formFieldOf } from "./choice.ts";

export interface DeployFault {
  readonly field: ChoiceField;
  /** Index of the document in the YAML, and its field. */
  readonly document: 0 | 1;
  readonly path: string;
  readonly message: string;
}

export type DeployAction = ReturnType<typeof useDeploy>;

interface DeployState {
  readonly at: "idle" | "busy" | "created";
  readonly faults: readonly DeployFault[];
  /** An error about no field. */
  readonly failure?: Error | undefined;
}

const IDLE: DeployState = { at: "idle", faults: [] };

export function useDeploy() {
  const [state, setState] = useState<DeployState>(IDLE);
  const deploy = async (deployment: Deployment): Promise<void> => {
    setState({ at: "busy", faults: [] });
    try {
      const faults = await create(deployment);
      setState(faults.length === 0 ? { at: "created", faults } : { at: "idle", faults });
    } catch (error) {
      setState({ at: "idle", faults: [], failure: error as Error });
    }
  };
  return { ...state, deploy, forget: () => setState(IDLE) };
}

/** Resolves with what the API server refuses. A Model that exists with the same source is used. */
async function create({ model, service }: Deployment): Promise<readonly DeployFault[]> {
  const { name, namespace } = service.metadata;
  const models = { resource: "models", namespace: model.metadata.namespace ?? "default" };
  const services = { resource: "inferenceservices", namespace: namespace ?? "default" };
  const existing = await findModel(models.namespace, model.metadata.name);
  if (existing !== undefined && existing.spec.source !== model.spec.source)
    return [
      nameFault(
        0,
        `There is a Model ${model.metadata.name} with another source: ${existing.spec.source}. Choose another name.`,
      ),
    ];
  const attempt = async (document: 0 | 1, isDryRun: boolean): Promise<readonly DeployFault[]> => {
    if (document === 0 && existing !== undefined) return [];
    const [place, object] = document === 0 ? ([models, model] as const) : ([services, service] as const);
    try {
      await createObject(place, object as unknown as ApiObject, { isDryRun });
      return [];
    } catch (error) {
      const retry = () =>
        createObject(place, object as unknown as ApiObject, { isDryRun: true, ignoresUnknown: true });
      const faults = await faultsOf(error as Error, document, { name, namespace: place.namespace, retry });
      if (faults.length === 0) throw error;
      return faults;
    }
  };
  const refused = [...(await attempt(0, true)), ...(await attempt(1, true))];
  if (refused.length > 0) return refused;
  const [first, second] = [await attempt(0, false), await attempt(1, false)];
  return [...first, ...second];
}

interface StoredModel extends ApiObject {
  readonly spec: { readonly source: string };
}

/** By a list, because an object that is missing is no error. A reader who may create Models need not be able to read them. */
async function findModel(namespace: string, name: string): Promise<StoredModel | undefined> {
  try {
    const query = { fieldSelector: `metadata.name=${name}` };
    return (await listObjects<StoredModel>({ resource: "models", namespace }, query))[0];
  } catch (error) {
    // A name that is none is refused by the dry run, at its field.
    if (error instanceof ConsoleError && [400, 403, 404].includes(error.status)) return undefined;
    throw error;
  }
}

async function faultsOf(
  error: Error,
  document: 0 | 1,
  {
    name,
    namespace,
    retry,
  }: { readonly name: string; readonly namespace: string; readonly retry: () => Promise<unknown> },
): Promise<readonly DeployFault[]> {
  if (!(error instanceof ConsoleError)) return [];
  if (error.code === "AlreadyExists")
    return [
      nameFault(document, `There is a service ${name} in namespace ${namespace}. Choose another name.`),
    ];
  if (error.code === "NotFound" && error.message.includes("namespaces"))
    return [
      {
        field: "namespace",
        document,
        path: "metadata.namespace",
        message: `There is no namespace ${namespace}. Create it with \`kubectl create namespace ${namespace}\`, or choose another one.`,
      },
    ];
  return (await allFieldErrors(error, retry)).map(({ field, message }) => ({
    field: formFieldOf(field),
    document,
    path: field,
    message,
  }));
}

function nameFault(document: 0 | 1, message: string): DeployFault {
  return { field: "name", document, path: "metadata.name", message };
}
