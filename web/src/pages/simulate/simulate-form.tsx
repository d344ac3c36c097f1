/** What is simulated: the model, its quantization and context, and a machine to leave out. */
import type { HostRow } from "../../../../src/console/rows.ts";
import { simulateText } from "../../texts/density.ts";

export interface Choice {
  readonly model: string;
  readonly quantization: string;
  readonly context: string;
  readonly without: string;
}

/** Names that the density API knows; an unknown one is refused with the names that it knows. */
const QUANTIZATIONS = [
  ...["F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "MXFP4", "Q3_K_M", "Q2_K"],
  ...["mlx-16bit", "mlx-8bit", "mlx-6bit", "mlx-5bit", "mlx-4bit", "mlx-3bit"],
];

export function SimulateForm({
  choice: { model, quantization, context, without },
  hosts,
  onChange,
}: {
  readonly choice: Choice;
  readonly hosts: readonly HostRow[];
  readonly onChange: Readonly<Record<keyof Choice, (value: string) => void>>;
}) {
  const names = [...new Set([...hosts.map(({ name }) => name), ...(without === "" ? [] : [without])])].sort();
  return (
    <form className="simulate-form" onSubmit={(event) => event.preventDefault()}>
      <label>
        <span className="small muted">{simulateText.model}</span>
        <input
          type="search"
          placeholder="Qwen/Qwen2.5-7B-Instruct"
          value={model}
          onChange={({ target }) => onChange.model(target.value)}
        />
      </label>
      <label>
        <span className="small muted">{simulateText.quantization}</span>
        <select value={quantization} onChange={({ target }) => onChange.quantization(target.value)}>
          <option value="">{simulateText.anyQuantization}</option>
          {QUANTIZATIONS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        <span className="small muted">{simulateText.context}</span>
        <input
          type="number"
          min={1}
          step={1024}
          value={context}
          onChange={({ target }) => onChange.context(target.value)}
        />
      </label>
      {(names.length > 1 || without !== "") && (
        <label>
          <span className="small muted">{simulateText.without}</span>
          <select value={without} onChange={({ target }) => onChange.without(target.value)}>
            <option value="">{simulateText.none}</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
    </form>
  );
}
