/** Which models of the catalog the reader is shown. Pure. */
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import type { CatalogAnswer, CatalogFit } from "../../../../src/console/catalog.ts";

const LEVELS: readonly CatalogFit["level"][] = ["perfect", "good", "marginal", "too_tight"];

/** With files only; those that fit first, then the newest. Every word must occur. */
export function foundModels(
  { models, fits }: CatalogAnswer<CatalogRecord>,
  words: string,
): readonly CatalogRecord[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return models
    .filter(({ gguf_sources, mlx_sources }) => gguf_sources.length + mlx_sources.length > 0)
    .filter((record) => {
      const text = [
        record.name,
        record.license,
        record.use_case,
        record.parameter_count,
        ...record.capabilities,
      ]
        .join(" ")
        .toLowerCase();
      return wanted.every((word) => text.includes(word));
    })
    .sort(
      (a, b) =>
        rankOf(fits[a.name]) - rankOf(fits[b.name]) ||
        (b.release_date ?? "").localeCompare(a.release_date ?? "") ||
        a.name.localeCompare(b.name),
    );
}

function rankOf(fit: CatalogFit | undefined): number {
  return fit === undefined ? LEVELS.length : LEVELS.indexOf(fit.level);
}
