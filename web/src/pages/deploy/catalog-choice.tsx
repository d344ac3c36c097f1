/** The catalog as a list to search: size, license, and how the model fits the best machine. */
import { useDeferredValue, useMemo, useState } from "react";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import type { CatalogAnswer, CatalogFit } from "../../../../src/console/catalog.ts";
import { Fit } from "../../parts/fit.tsx";
import { formatRate } from "../../parts/format.ts";
import { foundModels } from "./catalog-search.ts";

const MAX_SHOWN = 40;

export function CatalogChoice({
  catalog,
  onChoose,
}: {
  readonly catalog: CatalogAnswer<CatalogRecord>;
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

export function ChosenModel({
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
