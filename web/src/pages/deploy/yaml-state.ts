/** What the editor of the objects is given. */
import type { Deployment } from "./choice.ts";
import type { DeployFault } from "./use-deploy.ts";

export interface YamlState {
  readonly text: string;
  /** Undefined while the text is invalid. */
  readonly deployment: Deployment | undefined;
}

export interface DeployYamlProps {
  /** The deployment that the fields describe. */
  readonly deployment: Deployment | undefined;
  readonly faults: readonly DeployFault[];
  readonly edited: YamlState | undefined;
  readonly onEdit: (edited: YamlState | undefined) => void;
}
