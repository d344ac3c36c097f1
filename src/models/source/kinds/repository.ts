/** Sources that are a repository of a hub: organization, name, file and revision. */
import type { ModelFormat } from "../../../api/fields/shared.ts";
import { InvalidSource, type SourceKind } from "./kind.ts";
import { lastName, relativePath } from "./path.ts";

export interface RepositorySource<Kind extends string> {
  readonly kind: Kind;
  /** Organization and name. */
  readonly repo: string;
  readonly file?: string;
  readonly revision: string;
}

const PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Functions that all model hubs share. */
export function repositoryKind<const Kind extends string>(kind: Kind, form: string, defaultRevision: string) {
  type Source = RepositorySource<Kind>;
  return {
    schemes: [kind],
    form: `${kind}://`,
    readBy: "hub",
    parse: (rest): Source => parseRepository(rest, { kind, form, defaultRevision }),
    fileName: ({ file }: Source) => (file === undefined ? undefined : lastName(file)),
    format: ({ repo }: Source): ModelFormat | undefined =>
      /(^|[-_.])mlx([-_.]|$)|^mlx-community\//i.test(repo) ? "mlx" : undefined,
    shortName: ({ repo, file = repo }: Source) => lastName(file) ?? "",
  } as const satisfies SourceKind<Source>;
}

/** Throws InvalidSource. */
export function parseRepository<Kind extends string>(
  rest: string,
  {
    kind,
    form,
    defaultRevision,
  }: { readonly kind: Kind; readonly form: string; readonly defaultRevision: string },
): RepositorySource<Kind> {
  const at = rest.lastIndexOf("@");
  const path = at < 0 ? rest : rest.slice(0, at);
  const revision = at < 0 ? defaultRevision : rest.slice(at + 1);
  const [organization = "", name = "", ...file] = path.split("/");
  const [, plain, quantization] = /^([^:]+):([\w.-]+)$/.exec(name) ?? [];
  if (plain !== undefined)
    throw new InvalidSource(
      "the quantization is not part of the source",
      `${kind}://${organization}/${plain}, with spec.quantization (--quantization): ${quantization}`,
    );
  if (![organization, name].every((part) => PART.test(part) && !part.includes("..")))
    throw new InvalidSource("it does not name an organization and a repository", form);
  if (!/^[A-Za-z0-9][A-Za-z0-9._/-]*$/.test(revision) || revision.includes(".."))
    throw new InvalidSource("the revision after @ is not valid", form);
  const repo = `${organization}/${name}`;
  const named = file.join("/");
  return named === "" ? { kind, repo, revision } : { kind, repo, file: relativePath(named, form), revision };
}
