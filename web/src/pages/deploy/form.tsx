/** Left side of the dialog: the model, and the settings that most deployments need. */

import { useDeferredValue, useMemo, useState } from "react";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import type { CatalogFit, CatalogResponse } from "../../../../src/console/catalog.ts";
import { useList } from "../../live/hooks.ts";
import { Button, Segments } from "../../parts/buttons.tsx";
import { Field } from "../../parts/fields.tsx";
import { formatRate } from "../../parts/format.ts";
import { Failure, Skeleton } from "../../parts/notices.tsx";
import { Fit, LEVELS_IN_ORDER } from "../../parts/states.tsx";
import { hasWords } from "../../parts/table/filters.tsx";
import type { Choice, ChoiceField, Meaning } from "./choice.ts";
import type { DeployFault } from "./use-deploy.ts";

export interface DeployFormProps {
  readonly choice: Choice;
  readonly onChange: (changes: Partial<Choice>) => void;
  readonly meaning: Meaning;
  readonly faults: readonly DeployFault[];
  readonly catalog: CatalogResponse<CatalogRecord> | undefined;
  readonly catalogError: Error | null;
  /** The YAML was edited: the fields have no effect. */
  readonly isOverridden: boolean;
}

export function DeployForm(props: DeployFormProps) {
  const { choice, onChange, meaning, faults, isOverridden } = props;
  const faultOf = (field: ChoiceField): string | undefined => {
    if (meaning.at === "invalid" && meaning.field === field) return meaning.message;
    return faults.find((fault) => fault.field === field)?.message;
  };
  return (
    <fieldset className="stack gap-16 deploy-form" disabled={isOverridden}>
      <Segments
        label="Where the model is from"
        value={choice.from}
        onChange={(from) => onChange({ from: from as Choice["from"], quantization: "" })}
        options={[
          { id: "catalog", label: "Catalog" },
          { id: "source", label: "Own source" },
        ]}
      />
      <Model {...props} fault={faultOf(choice.from === "catalog" ? "model" : "source")} />
      <Settings
        choice={choice}
        onChange={onChange}
        meaning={meaning}
        faultOf={faultOf}
        {...recordOf(props)}
      />
    </fieldset>
  );
}

function recordOf({ choice, catalog }: DeployFormProps): { readonly record: CatalogRecord | undefined } {
  if (choice.from !== "catalog") return { record: undefined };
  return { record: catalog?.models.find(({ name }) => name === choice.model) };
}

function Model(props: DeployFormProps & { readonly fault: string | undefined }) {
  const { choice, onChange, catalog, catalogError, fault } = props;
  const [isChanging, setIsChanging] = useState(false);
  const { record } = recordOf(props);
  if (choice.from === "source")
    return (
      <Field
        label="Source"
        help="hf://org/repo, hf://org/repo/file.gguf, https://…, ollama://name:tag, oci://…, or an absolute path on the hosts"
        fault={fault}
      >
        {(field) => (
          <input
            {...field}
            value={choice.source}
            placeholder="hf://org/repo"
            spellCheck={false}
            onChange={({ target }) => onChange({ source: target.value, quantization: "" })}
          />
        )}
      </Field>
    );
  if (catalogError !== null) return <Failure error={catalogError} />;
  if (catalog === undefined) return <Skeleton rows={6} />;
  if (record !== undefined && !isChanging)
    return (
      <div className="stack gap-8">
        <div className="panel line chosen-model">
          <ChosenModel record={record} fit={catalog.fits[record.name]} />
          <Button look="quiet" onClick={() => setIsChanging(true)}>
            Change
          </Button>
        </div>
        {fault !== undefined && <p className="field-error">{fault}</p>}
      </div>
    );
  return (
    <CatalogChoice
      catalog={catalog}
      onChoose={(model) => {
        setIsChanging(false);
        onChange({ model, quantization: "" });
      }}
    />
  );
}

interface SettingsProps {
  readonly choice: Choice;
  readonly onChange: (changes: Partial<Choice>) => void;
  readonly meaning: Meaning;
  readonly record: CatalogRecord | undefined;
  readonly faultOf: (field: ChoiceField) => string | undefined;
}

const FURTHER = [
  { field: "cpuLimit", label: "CPU limit", placeholder: "none", help: "In pods only, such as 8 or 7500m" },
  { field: "memoryLimit", label: "Memory limit", placeholder: "none", help: "In pods only, such as 24Gi" },
  {
    field: "objective",
    label: "Objective (% of requests)",
    placeholder: "none",
    help: "Alerts if fewer are answered, such as 99.5. Needs Pyrra or the Prometheus operator.",
  },
] as const;

function Settings({ choice, onChange, meaning, record, faultOf }: SettingsProps) {
  return (
    <div className="deploy-fields">
      <Field label="Name" fault={faultOf("name")}>
        {(field) => (
          <input
            {...field}
            value={choice.name}
            placeholder={meaning.name}
            maxLength={63}
            spellCheck={false}
            onChange={({ target }) => onChange({ name: target.value })}
          />
        )}
      </Field>
      <NamespaceField choice={choice} onChange={onChange} fault={faultOf("namespace")} />
      <QuantizationField
        choice={choice}
        onChange={onChange}
        record={record}
        fault={faultOf("quantization")}
      />
      <Field label="Context size (tokens)" fault={faultOf("contextSize")}>
        {(field) => (
          <input
            {...field}
            inputMode="numeric"
            value={choice.contextSize}
            placeholder="default"
            onChange={({ target }) => onChange({ contextSize: target.value.trim() })}
          />
        )}
      </Field>
      <Field label="Replicas" fault={faultOf("replicas")}>
        {(field) => (
          <input
            {...field}
            inputMode="numeric"
            value={choice.replicas}
            onChange={({ target }) => onChange({ replicas: target.value.trim() })}
          />
        )}
      </Field>
      {FURTHER.map(({ field: name, label, placeholder, help }) => (
        <Field key={name} label={label} help={help} fault={faultOf(name)}>
          {(field) => (
            <input
              {...field}
              value={choice[name]}
              placeholder={placeholder}
              maxLength={32}
              spellCheck={false}
              onChange={({ target }) => onChange({ [name]: target.value.trim() })}
            />
          )}
        </Field>
      ))}
    </div>
  );
}

interface OneFieldProps extends Pick<SettingsProps, "choice" | "onChange"> {
  readonly fault: string | undefined;
}

/** Free text: a reader may use namespaces that they may not list. */
function NamespaceField({ choice, onChange, fault }: OneFieldProps) {
  const services = useList("services").rows;
  const models = useList("models").rows;
  const known = new Set(["default", ...[...services, ...models].map(({ namespace }) => namespace)]);
  return (
    <Field label="Namespace" fault={fault}>
      {(field) => (
        <>
          <input
            {...field}
            list="deploy-namespaces"
            value={choice.namespace}
            maxLength={63}
            spellCheck={false}
            onChange={({ target }) => onChange({ namespace: target.value })}
          />
          <datalist id="deploy-namespaces">
            {[...known].sort().map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

function QuantizationField({
  choice,
  onChange,
  record,
  fault,
}: OneFieldProps & { readonly record: CatalogRecord | undefined }) {
  const files = Object.entries(record?.files_gb ?? {});
  const set = (quantization: string) => onChange({ quantization });
  return (
    <Field label="Quantization" fault={fault}>
      {(field) =>
        files.length > 0 ? (
          <select {...field} value={choice.quantization} onChange={({ target }) => set(target.value)}>
            <option value="">{`${record?.quantization ?? ""} (usual)`}</option>
            {files
              .filter(([name]) => name !== record?.quantization)
              .map(([name, gb]) => (
                <option key={name} value={name}>{`${name}, ${gb} GB`}</option>
              ))}
          </select>
        ) : (
          <input
            {...field}
            value={choice.quantization}
            placeholder="Q4_K_M"
            maxLength={64}
            spellCheck={false}
            onChange={({ target }) => set(target.value)}
          />
        )
      }
    </Field>
  );
}

const MAX_SHOWN = 40;

/** The catalog as a list to search: size, license, and how the model fits the best machine. */
function CatalogChoice({
  catalog,
  onChoose,
}: {
  readonly catalog: CatalogResponse<CatalogRecord>;
  readonly onChoose: (model: string) => void;
}) {
  const [words, setWords] = useState("");
  const asked = useDeferredValue(words);
  const found = useMemo(() => foundModels(catalog, asked), [catalog, asked]);
  return (
    <div className="stack gap-8">
      <input
        type="search"
        // biome-ignore lint/a11y/noAutofocus: the first thing to do in the dialog
        autoFocus
        aria-label="Search the catalog"
        placeholder="Search the catalog"
        value={words}
        onChange={({ target }) => setWords(target.value)}
        onKeyDown={(event) => {
          // Enter chooses the first one instead of sending the form.
          if (event.key !== "Enter") return;
          event.preventDefault();
          const [first] = found;
          if (first !== undefined && words !== "") onChoose(first.name);
        }}
      />
      <ul className="panel catalog-list">
        {found.slice(0, MAX_SHOWN).map((record) => (
          <li key={record.name}>
            <button type="button" className="catalog-model" onClick={() => onChoose(record.name)}>
              <ChosenModel record={record} fit={catalog.fits[record.name]} />
            </button>
          </li>
        ))}
        {found.length === 0 && (
          <li className="muted small catalog-none">
            No model of the catalog matches. Choose Own source to use any address.
          </li>
        )}
        {found.length > MAX_SHOWN && (
          <li className="muted small catalog-none">{`${found.length - MAX_SHOWN} more: search for a name`}</li>
        )}
      </ul>
    </div>
  );
}

function ChosenModel({
  record,
  fit,
}: {
  readonly record: CatalogRecord;
  readonly fit: CatalogFit | undefined;
}) {
  const { name, parameter_count: parameters, license, quantization, files_gb: files } = record;
  const gb = files[quantization];
  const facts = [parameters, gb === undefined ? "" : `${gb} GB`, license ?? ""].filter(Boolean);
  return (
    <span className="catalog-facts">
      <span className="truncate catalog-name">{name}</span>
      <span className="truncate muted small">{facts.join(" · ")}</span>
      {fit !== undefined && (
        <span
          className="catalog-fit small"
          title={`${fit.machine}: ≈ ${formatRate(fit.tokensPerSecond)} tokens/s`}
        >
          <Fit level={fit.level} />
        </span>
      )}
    </span>
  );
}

/** With files only; those that fit first, then the newest. Every word must occur. */
export function foundModels(
  { models, fits }: CatalogResponse<CatalogRecord>,
  words: string,
): readonly CatalogRecord[] {
  return models
    .filter(({ gguf_sources, mlx_sources }) => gguf_sources.length + mlx_sources.length > 0)
    .filter(({ name, license, use_case, parameter_count, capabilities }) =>
      hasWords([name, license ?? "", use_case, parameter_count, ...capabilities], words),
    )
    .sort(
      (a, b) =>
        rankOf(fits[a.name]) - rankOf(fits[b.name]) ||
        (b.release_date ?? "").localeCompare(a.release_date ?? "") ||
        a.name.localeCompare(b.name),
    );
}

function rankOf(fit: CatalogFit | undefined): number {
  return fit === undefined ? LEVELS_IN_ORDER.length : LEVELS_IN_ORDER.indexOf(fit.level);
}
