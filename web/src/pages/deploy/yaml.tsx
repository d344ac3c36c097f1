/** The objects as YAML, collapsed. An edit replaces what the fields say. */
import { lazy, Suspense, useState } from "react";
import { Skeleton } from "../../parts/notice.tsx";
import type { DeployYamlProps } from "./yaml-fields.tsx";

const YamlFields = lazy(() =>
  import("./yaml-fields.tsx").then(({ YamlFields: component }) => ({ default: component })),
);

export function DeployYaml(props: DeployYamlProps) {
  const [isOpen, setIsOpen] = useState(false);
  const { deployment, edited, faults } = props;
  if (deployment === undefined && edited === undefined) return null;
  // What the form has no field for can be mended in the YAML only.
  const mustOpen = faults.some(({ field }) => field === "yaml") || edited !== undefined;
  return (
    <details
      className="deploy-yaml"
      open={isOpen || mustOpen}
      onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}
    >
      <summary>YAML</summary>
      {(isOpen || mustOpen) && (
        <Suspense fallback={<Skeleton rows={6} height={20} />}>
          <YamlFields {...props} />
        </Suspense>
      )}
    </details>
  );
}
