/** Where one model would go now: also without a machine or a service, and with several replicas. Nothing is changed. */
import { type ReactNode, useMemo, useState } from "react";
import type { HostRow } from "../../../../src/console/rows.ts";
import { useSearchParam } from "../../address/search.ts";
import { useList } from "../../live/hooks.ts";
import { formatBytes, HIDDEN_NAMESPACE } from "../../parts/format.ts";
import { withoutService } from "../../parts/free-bytes.ts";
import { MemoryHelp } from "../../parts/machines.tsx";
import { Section } from "../../parts/page.tsx";
import { Placement } from "../../parts/placement/placement.tsx";

const MAX_CARDS = 60;
const USUAL_CONTEXT = 8_192;
/** Names that the density API knows; an unknown one is refused with the names that it knows. */
const QUANTIZATIONS = [
  ...["F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "MXFP4", "Q3_K_M", "Q2_K"],
  ...["mlx-16bit", "mlx-8bit", "mlx-6bit", "mlx-5bit", "mlx-4bit", "mlx-3bit"],
];

export function WhatIf({ model }: { readonly model: string }) {
  const [quantization, setQuantization] = useSearchParam("quantization");
  const [context, setContext] = useSearchParam("context", String(USUAL_CONTEXT));
  const [replicas, setReplicas] = useSearchParam("replicas", "1");
  const [without, setWithout] = useSearchParam("without");
  const hosts = useList("hosts").rows;
  const after = useMemo(() => hosts.map((host) => withoutService(host, without)), [hosts, without]);
  return (
    <Section title="Where it would go now" aside={<MemoryHelp />}>
      <p className="muted prose">In addition to everything that runs now. Nothing is changed.</p>
      <form className="what-if-fields" onSubmit={(event) => event.preventDefault()}>
        <Choice
          label="Quantization"
          none="Best for each machine"
          value={quantization}
          onChange={setQuantization}
        >
          {QUANTIZATIONS.map(optionOf)}
        </Choice>
        <Count label="Context (tokens)" step={1_024} value={context} onChange={setContext} />
        <Count label="Replicas" step={1} value={replicas} onChange={setReplicas} />
        <Without hosts={hosts} value={without} onChange={setWithout} />
      </form>
      {without !== "" && <Leaving hosts={hosts} without={without} />}
      <Placement
        question={{
          model,
          quantization: quantization === "" ? undefined : quantization,
          context: countOf(context, USUAL_CONTEXT),
          exclude: without === "" ? undefined : [without],
        }}
        hosts={after}
        label={model}
        replicas={countOf(replicas, 1)}
        max={MAX_CARDS}
        noneOf={() => "No machine takes new replicas."}
      />
    </Section>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Choice({
  label,
  none,
  value,
  onChange,
  children,
}: FieldProps & { readonly none: string; readonly children: ReactNode }) {
  return (
    <label className="field">
      <span>{label}</span>
      <select value={value} onChange={({ target }) => onChange(target.value)}>
        <option value="">{none}</option>
        {children}
      </select>
    </label>
  );
}

/** An empty field stays empty, although the parameter then has its default. */
function Count({ label, step, value, onChange }: FieldProps & { readonly step: number }) {
  const [typed, setTyped] = useState(value);
  return (
    <label className="field">
      <span>{label}</span>
      <input
        type="number"
        min={1}
        step={step}
        value={typed}
        onChange={({ target }) => {
          setTyped(target.value);
          onChange(target.value);
        }}
      />
    </label>
  );
}

/** A machine that is switched off, or a service that is stopped. */
function Without({
  hosts,
  value,
  onChange,
}: Omit<FieldProps, "label"> & { readonly hosts: readonly HostRow[] }) {
  const named = (names: readonly string[], isService: boolean) =>
    [...new Set([...names, value])].filter((name) => name !== "" && name.includes("/") === isService).sort();
  const services = named(
    hosts.flatMap(({ claims }) => claims.map(({ service }) => service)),
    true,
  );
  const machines = named(
    hosts.map(({ name }) => name),
    false,
  );
  return (
    <Choice label="Without" none="Everything stays" value={value} onChange={onChange}>
      {services.length > 0 && <optgroup label="Service, stopped">{services.map(optionOf)}</optgroup>}
      {machines.length > 0 && <optgroup label="Machine, switched off">{machines.map(optionOf)}</optgroup>}
    </Choice>
  );
}

function optionOf(name: string) {
  return <option key={name}>{name}</option>;
}

/** What runs on the machine that is left out, and would have to move; or what a stopped service frees. */
function Leaving({ hosts, without }: { readonly hosts: readonly HostRow[]; readonly without: string }) {
  const isService = without.includes("/");
  const claims = hosts.flatMap(({ name, claims }) =>
    claims
      .filter(({ service }) => (isService ? service : name) === without)
      .map((claim) => ({ ...claim, name: isService ? name : claim.service })),
  );
  if (claims.length === 0 && !isKnown(hosts, without)) return null;
  const bytes = formatBytes(claims.reduce((sum, claim) => sum + claim.bytes, 0));
  const count = claims.length === 1 ? "1 replica" : `${claims.length} replicas`;
  const sentence = isService
    ? `Without ${without}, ${count} with ${bytes} would be stopped:`
    : `${count} with ${bytes} would have to move away from ${without}:`;
  const none = isService
    ? `${without} has no replica, so nothing becomes free.`
    : `${without} runs no replica: nothing would have to move.`;
  return (
    <div className="card">
      <p>{claims.length === 0 ? none : sentence}</p>
      <ul className="small">
        {claims.map(({ service, replica, name, bytes: claimed }) => (
          <li key={`${service} ${replica}`}>
            <bdi>{name === "" ? HIDDEN_NAMESPACE : name}</bdi>{" "}
            <span className="muted number">{formatBytes(claimed)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A name in the address may be one of nothing, or of a service that the reader may not see. */
function isKnown(hosts: readonly HostRow[], without: string): boolean {
  if (!without.includes("/")) return hosts.some(({ name }) => name === without);
  return hosts.length > 0 && hosts.every(({ claims }) => claims.every(({ service }) => service !== ""));
}

/** An address may have any text. */
function countOf(typed: string, byDefault: number): number {
  return Math.max(1, Number.parseInt(typed, 10) || byDefault);
}
