/** An edit of a service as text, from its start to its storage. */
import { useState } from "react";
import type { InferenceService } from "../../../../../src/api/inference-service/index.ts";
import { type ApiObject, getObject, type Place, replaceObject } from "../../../api/kube.ts";
import { ConsoleError } from "../../../api/request.ts";
import { parseYaml, printYaml, type YamlDocument, type YamlFault } from "../../../parts/yaml/documents.ts";
import { allFieldErrors } from "../../../parts/yaml/field-errors.ts";
import { changedFields, type FieldChange, mergeEdit } from "./merge.ts";

export interface EditConflict {
  readonly changes: readonly FieldChange[];
  /** Field manager of the last change. */
  readonly by: string | undefined;
  readonly at: string | undefined;
  readonly stored: Editable;
}

export type Edit = ReturnType<typeof useEdit>;

type Editable = Readonly<Record<string, unknown>>;

interface EditState {
  /** Undefined while nothing is edited. */
  readonly text?: string | undefined;
  /** What the edit began with. */
  readonly base?: Editable;
  readonly faults: readonly YamlFault[];
  /** An error about no field. */
  readonly failure?: Error | undefined;
  readonly conflict?: EditConflict | undefined;
  /** Fields that another person has changed too, after a merge. */
  readonly clashes: readonly string[];
  readonly at: "idle" | "busy" | "checked" | "saved";
}

const NOTHING: EditState = { faults: [], clashes: [], at: "idle" };

export function useEdit(service: InferenceService) {
  const [state, setState] = useState<EditState>(NOTHING);
  const { namespace = "default", name } = service.metadata;
  const place: Place = { resource: "inferenceservices", namespace, name };
  const patch = (changes: Partial<EditState>) => setState((before) => ({ ...before, ...changes }));

  const send = async (isDryRun: boolean): Promise<void> => {
    const parsed = parseYaml(state.text ?? "");
    if (parsed.at === "invalid") return patch({ faults: parsed.faults, failure: undefined });
    const [document, ...more] = parsed.documents;
    if (document === undefined || more.length > 0)
      return patch({ faults: [{ line: 1, message: "Write one object." }] });
    patch({ at: "busy", faults: [], failure: undefined });
    try {
      await replaceObject(place, document.value as unknown as ApiObject, { isDryRun });
      if (isDryRun) patch({ at: "checked" });
      else setState({ ...NOTHING, at: "saved" });
    } catch (error) {
      patch({ at: "idle", ...(await explain(error as Error, document, place, state.base ?? {})) });
    }
  };

  return {
    ...state,
    begin: () => {
      const base = editableOf(service);
      setState({ ...NOTHING, base, text: printYaml(base) });
    },
    change: (text: string) => patch({ text, at: "idle", faults: [] }),
    cancel: () => setState(NOTHING),
    check: () => send(true),
    save: () => send(false),
    merge: () => {
      const { conflict, base = {} } = state;
      const parsed = parseYaml(state.text ?? "");
      const edited = parsed.at === "parsed" ? parsed.documents[0]?.value : undefined;
      if (conflict === undefined || edited === undefined) return;
      const ours = { ...edited, metadata: withVersionOf(edited, base) };
      const { value, clashes } = mergeEdit(base, ours, conflict.stored);
      setState({ ...NOTHING, base: conflict.stored, text: printYaml(value), clashes });
    },
  };
}

/** Without what only the API server and the controller write; the version stays, because it detects other changes. */
function editableOf(object: object): Editable {
  const { status: _, metadata, ...rest } = object as Editable & { readonly metadata: Editable };
  const { managedFields: _fields, creationTimestamp: _created, generation: _generation, ...kept } = metadata;
  const { apiVersion, kind, spec, ...others } = rest as Editable;
  return { apiVersion, kind, metadata: kept, spec, ...others };
}

/** The resource version does not count as a change by the reader. */
function withVersionOf(edited: Editable, base: Editable): Editable {
  const { resourceVersion } = (base.metadata ?? {}) as Editable;
  return { ...(edited.metadata as Editable), resourceVersion };
}

async function explain(
  error: Error,
  document: YamlDocument,
  place: Place,
  base: Editable,
): Promise<Pick<EditState, "faults" | "failure" | "conflict">> {
  if (error instanceof ConsoleError && error.status === 409) return explainConflict(error, place, base);
  const object = document.value as unknown as ApiObject;
  const retry = () => replaceObject(place, object, { isDryRun: true, ignoresUnknown: true });
  const faults = (await allFieldErrors(error, retry)).map(({ field, message }) => ({
    line: document.lineOf(field),
    message: `${field}: ${message}`,
  }));
  return { faults, failure: faults.length > 0 ? undefined : error, conflict: undefined };
}

interface ManagedObject extends ApiObject {
  readonly metadata: ApiObject["metadata"] & {
    readonly managedFields?: readonly {
      readonly manager?: string;
      readonly time?: string;
      readonly subresource?: string;
    }[];
  };
}

async function explainConflict(
  error: Error,
  place: Place,
  base: Editable,
): Promise<Pick<EditState, "faults" | "failure" | "conflict">> {
  try {
    const object = await getObject<ManagedObject>(place);
    const stored = editableOf(object);
    const isVersion = ({ field }: FieldChange) => field === "metadata.resourceVersion";
    const changes = changedFields(base, stored).filter((change) => !isVersion(change));
    const last = (object.metadata.managedFields ?? [])
      .filter(({ subresource }) => subresource === undefined || subresource === "scale")
      .sort((a, b) => (a.time ?? "").localeCompare(b.time ?? ""))
      .at(-1);
    const conflict = { changes, by: last?.manager, at: last?.time, stored };
    return { faults: [], failure: undefined, conflict };
  } catch {
    // It cannot be read any more, for example because it was deleted.
    return { faults: [], failure: error, conflict: undefined };
  }
}
