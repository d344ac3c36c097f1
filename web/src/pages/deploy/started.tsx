/** After the objects are created: the way to the first answer. */
import { Link } from "@tanstack/react-router";
import { keepNamespace } from "../../address/search.ts";
import { StartOf } from "../../parts/start/start-of.tsx";
import { deployText } from "../../texts/deploy.ts";

export function Started({
  namespace,
  name,
  onClose,
}: {
  readonly namespace: string;
  readonly name: string;
  readonly onClose: () => void;
}) {
  const service = `${namespace}/${name}`;
  return (
    <div className="stack">
      <StartOf namespace={namespace} name={name} />
      <p className="muted small">{deployText.closing}</p>
      <footer className="row end">
        <Link
          to={`/services/${service}` as "/"}
          search={keepNamespace}
          className="button button-plain"
          onClick={onClose}
        >
          {deployText.toService}
        </Link>
        <Link
          to={"/playground" as "/"}
          search={(before: object) => ({ ...(keepNamespace(before) as object), service }) as never}
          className="button button-primary"
          onClick={onClose}
        >
          {deployText.toPlayground}
        </Link>
      </footer>
    </div>
  );
}
