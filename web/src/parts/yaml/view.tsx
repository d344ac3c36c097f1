/** An object as YAML, to read and copy. The library is loaded when the view is. */
import { useQuery } from "@tanstack/react-query";
import { Skeleton } from "../notices.tsx";
import "./yaml.css";
import { CopyButton } from "../buttons.tsx";

export function YamlView({ object }: { readonly object: object }) {
  const { data: stringify } = useQuery({
    queryKey: ["yaml-library"],
    queryFn: async () => (await import("yaml")).stringify,
    staleTime: Number.POSITIVE_INFINITY,
    throwOnError: true,
  });
  if (stringify === undefined) return <Skeleton rows={12} height={24} />;
  const yaml = stringify(object, { lineWidth: 0 });
  return (
    <div className="yaml-view">
      <span className="yaml-copy">
        <CopyButton value={yaml} label="Copy the YAML" />
      </span>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by the keyboard */}
      <pre tabIndex={0}>{yaml}</pre>
    </div>
  );
}
