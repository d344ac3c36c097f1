/** Creates a key, or changes one. A new key is shown once. */
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { firstKeyWords } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, createGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import { Button, Command } from "../../../parts/buttons.tsx";
import { Confirm, Dialog } from "../../../parts/dialogs.tsx";
import { Field, type FieldAttributes } from "../../../parts/fields.tsx";
import { Failure } from "../../../parts/notices.tsx";
import {
  emptyForm,
  type FormField,
  fieldsOf,
  formOf,
  type KeyForm,
  LIMIT_NAMES,
  LIMITS,
  refusalOf,
  SCOPE_KINDS,
  SCOPES,
  type ValidKey,
  wrongFields,
} from "./form.ts";

const FAULTS: Partial<Record<FormField, string>> = {
  name: "Lower-case letters, digits and hyphens. It is also the name of the Secret.",
  scope: "Name at least one namespace, service or model, or choose all services. Separate names by commas.",
};
/** All that a key may have: of one that the list lacks, the browser would select another. */
const PRIORITIES = Object.keys({
  critical: true,
  high: true,
  normal: true,
  low: true,
  batch: true,
} satisfies Record<KeyForm["priority"], true>);

export function KeyDialog({
  entry,
  firstIn,
  onClose,
}: {
  /** Undefined creates one. */
  readonly entry: ValidKey | undefined;
  /** The namespace, if it has no key yet: until now the gateway has accepted every request. */
  readonly firstIn?: string | undefined;
  readonly onClose: () => void;
}) {
  const client = useQueryClient();
  const [form, setForm] = useState(() => (entry === undefined ? emptyForm() : formOf(entry)));
  const [isTried, setIsTried] = useState(false);
  const [isAsking, setIsAsking] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const refused = error === undefined ? undefined : refusalOf(error);
  const [made, setMade] = useState<string>();
  const wrong = wrongFields(form);
  const save = async (): Promise<void> => {
    setIsTried(true);
    if (wrong.length > 0) return;
    if (firstIn !== undefined && !isAsking) return setIsAsking(true);
    setIsBusy(true);
    setError(undefined);
    try {
      const fields = fieldsOf(form);
      if (entry === undefined) setMade(await createGatewayKey(form.name, fields));
      else await changeGatewayKey(entry.name, fields);
      await client.invalidateQueries({ queryKey: gatewayKeysQuery.queryKey });
      void client.invalidateQueries({ queryKey: ["gateway"] });
      if (entry !== undefined) onClose();
    } catch (cause) {
      setError(cause instanceof Error ? cause : new Error(String(cause)));
    } finally {
      setIsBusy(false);
      setIsAsking(false);
    }
  };
  const faultOf = (field: FormField): string | undefined => {
    if (isTried && wrong.includes(field)) return FAULTS[field] ?? "A whole number, at least 1";
    return refused?.field === field ? refused.message : undefined;
  };
  if (made !== undefined) return <MadeKey value={made} onClose={onClose} />;
  const title = entry === undefined ? "Create a key" : `Change key ${entry.name}`;
  return (
    <Dialog title={title} isOpen isForm onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Fields
          form={form}
          setForm={(next) => {
            setForm(next);
            setError(undefined);
          }}
          isNew={entry === undefined}
          faultOf={faultOf}
        />
        {error !== undefined && refused === undefined && <Failure error={error} />}
        <footer className="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            {entry === undefined ? "Create a key" : "Save"}
          </Button>
        </footer>
      </form>
      {firstIn !== undefined && isAsking && (
        <Confirm
          title="Create the first key?"
          isOpen
          onClose={() => setIsAsking(false)}
          act="Create a key"
          look="primary"
          isBusy={isBusy}
          onConfirm={() => void save()}
        >
          <p>{firstKeyWords(form.name, firstIn)}</p>
        </Confirm>
      )}
    </Dialog>
  );
}

function MadeKey({ value, onClose }: { readonly value: string; readonly onClose: () => void }) {
  return (
    <Dialog title="Copy the key now" description="It is shown only once: the cluster stores its hash." isOpen>
      <Command>{value}</Command>
      <footer className="row end">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

interface FieldsProps {
  readonly form: KeyForm;
  readonly setForm: (form: KeyForm) => void;
  readonly isNew: boolean;
  /** What is wrong with a field, if anything. */
  readonly faultOf: (field: FormField) => string | undefined;
}

function Fields({ form, setForm, isNew, faultOf }: FieldsProps) {
  const change = (changes: Partial<KeyForm>): void => setForm({ ...form, ...changes });
  const input = (name: "name" | "owner" | "weight" | "validDays") => (field: FieldAttributes) => (
    <input
      {...field}
      value={form[name]}
      maxLength={253}
      inputMode={name === "weight" || name === "validDays" ? "numeric" : "text"}
      onChange={({ target }) => change({ [name]: target.value })}
    />
  );
  return (
    <>
      {isNew && (
        <Field
          label="Name"
          help="Lower-case letters, digits and hyphens. It is also the name of the Secret."
          fault={faultOf("name")}
          isRequired
        >
          {input("name")}
        </Field>
      )}
      <Field label="Owner" help="Person or team. Empty: the name of the key." fault={faultOf("owner")}>
        {input("owner")}
      </Field>
      <ScopeFields form={form} change={change} fault={faultOf("scope")} />
      <Limits form={form} change={change} faultOf={faultOf} />
      <div className="halves">
        <Field
          label="Valid for (days)"
          help={
            isNew ? "Empty: the key does not expire." : "Counted from now. Empty: the expiry stays as it is."
          }
          fault={faultOf("validDays")}
        >
          {input("validDays")}
        </Field>
        <Field label="Priority" help="A higher priority is served first." fault={undefined}>
          {(field) => (
            <select
              {...field}
              value={form.priority}
              onChange={({ target }) => change({ priority: target.value as KeyForm["priority"] })}
            >
              {PRIORITIES.map((priority) => (
                <option key={priority}>{priority}</option>
              ))}
            </select>
          )}
        </Field>
        <Field
          label="Weight"
          help="Share of the queue, from 1 to 1,000: 2 gets twice as much as 1. Empty: 1."
          fault={faultOf("weight")}
        >
          {input("weight")}
        </Field>
      </div>
    </>
  );
}

interface PartProps {
  readonly form: KeyForm;
  readonly change: (changes: Partial<KeyForm>) => void;
}

function Limits({ form, change, faultOf }: PartProps & Pick<FieldsProps, "faultOf">) {
  const help = useId();
  return (
    <fieldset className="stack key-scope" aria-describedby={help}>
      <legend className="muted small">Limits</legend>
      <span id={help} className="muted small">
        Empty: no limit. Tokens are those of prompts and answers together.
      </span>
      <div className="halves">
        {LIMIT_NAMES.map((name) => (
          <Field key={name} label={LIMITS[name].label} fault={faultOf(name)}>
            {(field) => (
              <input
                {...field}
                inputMode="numeric"
                value={form.limits[name]}
                onChange={({ target }) => change({ limits: { ...form.limits, [name]: target.value } })}
              />
            )}
          </Field>
        ))}
      </div>
    </fieldset>
  );
}

function ScopeFields({ form, change, fault }: PartProps & { readonly fault: string | undefined }) {
  const note = useId();
  return (
    <fieldset className="stack key-scope" aria-describedby={note}>
      <legend className="muted small">May use (required)</legend>
      <span id={note} className={fault === undefined ? "muted small" : "field-error"}>
        {fault ??
          "Name at least one namespace, service or model, or choose all services. Separate names by commas."}
      </span>
      <label className="row">
        <input
          type="checkbox"
          checked={form.isForAll}
          onChange={({ target }) => change({ isForAll: target.checked })}
        />
        All services
      </label>
      {!form.isForAll &&
        SCOPE_KINDS.map((kind) => (
          <Field key={kind} label={SCOPES[kind].label} fault={undefined}>
            {(field) => (
              <input
                {...field}
                value={form.lists[kind]}
                placeholder={SCOPES[kind].example}
                onChange={({ target }) => change({ lists: { ...form.lists, [kind]: target.value } })}
              />
            )}
          </Field>
        ))}
    </fieldset>
  );
}
