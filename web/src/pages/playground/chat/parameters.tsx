/** The parameters of a chat. */
import { texts } from "../../../texts/playground.ts";
import { isInvalid, LIMITS, type NumberName, type Parameters } from "./body.ts";
import { changeChat } from "./store.ts";

const NUMBERS: readonly NumberName[] = ["temperature", "topP", "maxTokens", "seed"];

export function ParameterFields({ parameters }: { readonly parameters: Parameters }) {
  const change = (changes: Partial<Parameters>): void =>
    changeChat({ parameters: { ...parameters, ...changes } });
  return (
    <div className="stack">
      <label className="field">
        <span>{texts.system}</span>
        <textarea
          rows={4}
          value={parameters.system}
          onChange={({ target }) => change({ system: target.value })}
        />
      </label>
      <div className="chat-numbers">
        {NUMBERS.map((name) => (
          <NumberField key={name} name={name} value={parameters[name]} onChange={change} />
        ))}
      </div>
      <label className="row">
        <input
          type="checkbox"
          checked={parameters.isJson}
          onChange={({ target }) => change({ isJson: target.checked })}
        />
        {texts.json}
      </label>
    </div>
  );
}

function NumberField({
  name,
  value,
  onChange,
}: {
  readonly name: NumberName;
  readonly value: string;
  readonly onChange: (changes: Partial<Parameters>) => void;
}) {
  const { min, max } = LIMITS[name];
  const isWrong = isInvalid(name, value);
  return (
    <label className="field">
      <span>{texts[name]}</span>
      <input
        inputMode="decimal"
        placeholder={texts.byDefault}
        value={value}
        aria-invalid={isWrong}
        onChange={({ target }) => onChange({ [name]: target.value })}
      />
      {isWrong && <span className="field-error">{texts.range(min, max)}</span>}
    </label>
  );
}
