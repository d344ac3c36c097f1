/** Creates a key, or changes one. A new key is shown once. */
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { firstKeyWords } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, createGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/copy.tsx";
import { Confirm, Dialog } from "../../../parts/dialog.tsx";
import { Field, type FieldAttributes } from "../../../parts/field.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { gatewayTexts } from "../../../texts/gateway.ts";
import { text } from "../../../texts/text.ts";
import {
  emptyForm,
  type FormField,
  fieldsOf,
  formOf,
  type KeyForm,
  LIMIT_NAMES,
  refusalOf,
  SCOPE_KINDS,
  type ValidKey,
  wrongFields,
} from "./form.ts";

const texts = gatewayTexts.keys;
const FAULTS: Partial<Record<FormField, string>> = { name: texts.nameHelp, scope: texts.scopeHelp };
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
    if (isTried && wrong.includes(field)) return FAULTS[field] ?? texts.invalidNumber;
    return refused?.field === field ? refused.message : undefined;
  };
  if (made !== undefined)
    return (
      <Dialog title={texts.madeTitle} description={texts.madeWhy} isOpen>
        <Command>{made}</Command>
        <footer className="row end">
          <Button look="primary" onClick={onClose}>
            {texts.done}
          </Button>
        </footer>
      </Dialog>
    );
  const title = entry === undefined ? texts.create : texts.changeTitle(entry.name);
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
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            {entry === undefined ? texts.create : texts.save}
          </Button>
        </footer>
      </form>
      {firstIn !== undefined && isAsking && (
        <Confirm
          title={texts.firstTitle}
          isOpen
          onClose={() => setIsAsking(false)}
          act={texts.create}
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
        <Field label={texts.name} help={texts.nameHelp} fault={faultOf("name")} isRequired>
          {input("name")}
        </Field>
      )}
      <Field label={texts.owner} help={texts.ownerHelp} fault={faultOf("owner")}>
        {input("owner")}
      </Field>
      <ScopeFields form={form} change={change} fault={faultOf("scope")} />
      <Limits form={form} change={change} faultOf={faultOf} />
      <div className="halves">
        <Field
          label={texts.validDays}
          help={isNew ? texts.validHelp : texts.keepHelp}
          fault={faultOf("validDays")}
        >
          {input("validDays")}
        </Field>
        <Field label={texts.priority} help={texts.priorityHelp} fault={undefined}>
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
        <Field label={texts.weight} help={texts.weightHelp} fault={faultOf("weight")}>
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
      <legend className="muted small">{texts.limits}</legend>
      <span id={help} className="muted small">
        {texts.limitsHelp}
      </span>
      <div className="halves">
        {LIMIT_NAMES.map((name) => (
          <Field key={name} label={texts.limitNames[name]} fault={faultOf(name)}>
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
      <legend className="muted small">{text.form.required(texts.scope)}</legend>
      <span id={note} className={fault === undefined ? "muted small" : "field-error"}>
        {fault ?? texts.scopeHelp}
      </span>
      <label className="row">
        <input
          type="checkbox"
          checked={form.isForAll}
          onChange={({ target }) => change({ isForAll: target.checked })}
        />
        {texts.kinds.all}
      </label>
      {!form.isForAll &&
        SCOPE_KINDS.map(
          (kind) =>
            kind !== "all" && (
              <Field key={kind} label={texts.kinds[kind]} fault={undefined}>
                {(field) => (
                  <input
                    {...field}
                    value={form.lists[kind]}
                    placeholder={texts.kindsHelp[kind]}
                    onChange={({ target }) => change({ lists: { ...form.lists, [kind]: target.value } })}
                  />
                )}
              </Field>
            ),
        )}
    </fieldset>
  );
}
