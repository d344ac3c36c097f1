/** GET /console/catalog: what can be deployed without knowing a source. */

/** Fit of a catalog model on the best host, by the memory that engines may claim there: deployments run on hosts by default. */
export interface CatalogFit {
  readonly level: "perfect" | "good" | "marginal" | "too_tight";
  readonly machine: string;
  readonly tokensPerSecond: number;
}

/** `R` is a record of the catalog. */
export interface CatalogResponse<R> {
  readonly models: readonly R[];
  /** By the name of the model. Without entries for a reader who may not get `density/catalog`. */
  readonly fits: Readonly<Record<string, CatalogFit>>;
}
