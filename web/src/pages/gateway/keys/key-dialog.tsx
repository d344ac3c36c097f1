/** Creates a key, or changes one. A new key is shown once. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useId, useState } from "react";
import type { KeyEntry } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, createGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/copy.tsx";
import { Dialog } from "../../../parts/dialog.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { gatewayTexts } from "../../../texts/gateway.ts";
import {
  emptyForm,
  type FormField,
  fieldsOf,
  formOf,
  type KeyForm,
  LIMIT_NAMES,
  SCOPE_KINDS,
  wrongFields,
} from "./form.ts";

const texts = gatewayTexts.keys;
const PRIORITIES: readonly KeyForm["priority"][] = ["high", "normal", "low"];

export function KeyDialog({
  entry,
  isFirst = false,
  onClose,
}: {
  /** Undefined creates one. */
  readonly entry: Exclude<KeyEntry, { state: "invalid" }> | undefined;
  /** Until now the gateway has accepted every request. */
  readonly isFirst?: boolean;
  readonly onClose: () => void;
}) {
  const client = useQueryClient();
  const [form, setForm] = useState(() => (entry === undefined ? emptyForm() : formOf(entry)));
  const [isTried, setIsTried] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const [made, setMade] = useState<string>();
  const wrong = wrongFields(form);
  const save = async (): Promise<void> => {
    setIsTried(true);
    if (wrong.length > 0) return;
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
    }
  };
  if (made !== undefined)
    return (
      <Dialog title={texts.madeTitle} description={texts.madeWhy} isOpen>
        <Command>{made}</Command>
        <footer className="dialog-foot">
          <Button look="primary" onClick={onClose}>
            {texts.done}
          </Button>
        </footer>
      </Dialog>
    );
  const title = entry === undefined ? texts.create : texts.changeTitle(entry.name);
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Fields form={form} setForm={setForm} isNew={entry === undefined} wrong={isTried ? wrong : []} />
        {isFirst && <p className="keys-last">{texts.firstKey}</p>}
        {error !== undefined && <Failure error={error} />}
        <footer className="dialog-foot">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            {entry === undefined ? texts.create : texts.save}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

interface FieldsProps {
  readonly form: KeyForm;
  readonly setForm: (form: KeyForm) => void;
  readonly isNew: boolean;
  readonly wrong: readonly FormField[];
}

function Fields({ form, setForm, isNew, wrong }: FieldsProps) {
  const change = (changes: Partial<KeyForm>): void => setForm({ ...form, ...changes });
  const problem = (field: FormField, why: string) => (wrong.includes(field) ? why : undefined);
  return (
    <>
      {isNew && (
        <Field label={texts.name} problem={problem("name", texts.nameHelp)}>
          {(props) => (
            <input
              {...props}
              value={form.name}
              maxLength={253}
              onChange={({ target }) => change({ name: target.value })}
            />
          )}
        </Field>
      )}
      <Field label={texts.owner}>
        {(props) => (
          <input
            {...props}
            value={form.owner}
            maxLength={253}
            placeholder={form.name}
            onChange={({ target }) => change({ owner: target.value })}
          />
        )}
      </Field>
      <ScopeFields form={form} change={change} problem={problem("scope", texts.emptyScope)} />
      <div className="key-grid">
        {LIMIT_NAMES.map((name) => (
          <Field key={name} label={texts.limitNames[name]} problem={problem(name, texts.invalidNumber)}>
            {(props) => (
              <input
                {...props}
                inputMode="numeric"
                placeholder={texts.unlimited}
                value={form.limits[name]}
                onChange={({ target }) => change({ limits: { ...form.limits, [name]: target.value } })}
              />
            )}
          </Field>
        ))}
        <Field label={texts.validDays} problem={problem("validDays", texts.invalidNumber)}>
          {(props) => (
            <input
              {...props}
              inputMode="numeric"
              placeholder={isNew ? texts.forever : texts.keepExpiry}
              value={form.validDays}
              onChange={({ target }) => change({ validDays: target.value })}
            />
          )}
        </Field>
        <Field label={texts.priority}>
          {(props) => (
            <select
              {...props}
              value={form.priority}
              onChange={({ target }) => change({ priority: target.value as KeyForm["priority"] })}
            >
              {PRIORITIES.map((priority) => (
                <option key={priority}>{priority}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label={texts.weight} problem={problem("weight", texts.invalidNumber)}>
          {(props) => (
            <input
              {...props}
              inputMode="numeric"
              value={form.weight}
              onChange={({ target }) => change({ weight: target.value })}
            />
          )}
        </Field>
      </div>
    </>
  );
}

function ScopeFields({
  form,
  change,
  problem,
}: {
  readonly form: KeyForm;
  readonly change: (changes: Partial<KeyForm>) => void;
  readonly problem: string | undefined;
}) {
  return (
    <fieldset className="key-scope">
      <legend className="muted small">{texts.scope}</legend>
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
              <Field key={kind} label={texts.kinds[kind]}>
                {(props) => (
                  <input
                    {...props}
                    value={form.lists[kind]}
                    placeholder={texts.kindsHelp[kind]}
                    onChange={({ target }) => change({ lists: { ...form.lists, [kind]: target.value } })}
                  />
                )}
              </Field>
            ),
        )}
      {problem !== undefined && <span className="field-error">{problem}</span>}
    </fieldset>
  );
}

interface ControlProps {
  readonly id: string;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby"?: string;
}

function Field({
  label,
  problem,
  children,
}: {
  readonly label: string;
  readonly problem?: string | undefined;
  readonly children: (props: ControlProps) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id} className="muted small">
        {label}
      </label>
      {children({ id, "aria-invalid": problem !== undefined, "aria-describedby": `${id}-why` })}
      {problem !== undefined && (
        <span id={`${id}-why`} className="field-error">
          {problem}
        </span>
      )}
    </div>
  );
}
