/** GET /console/catalog: what can be deployed without knowing a source. */

/** How a catalog model fits the host that suits it best, among all that engines may claim there: deployments run on hosts by default. */
export interface CatalogFit {
  readonly level: "perfect" | "good" | "marginal" | "too_tight";
  readonly machine: string;
  readonly tokensPerSecond: number;
}

/** `R` is a record of the catalog. */
export interface CatalogAnswer<R> {
  readonly models: readonly R[];
  /** By the name of the model. Without entries for a reader who may not get `density/catalog`. */
  readonly fits: Readonly<Record<string, CatalogFit>>;
}
