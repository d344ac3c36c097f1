/** What fits where: scores, memory and GPUs of every host and node. */
import { type Dashboard, graph, stat } from "./panel.ts";

const of = (series: string) => `max by (node, kind) (metalbridge_density_node_${series}{node=~"$node"})`;

export const density: Dashboard = {
  uid: "metalbridge-density",
  title: "Metalbridge / Density",
  description: "Which machines models fit on. Needs the metrics of the server (server.enabled of the chart).",
  variables: [{ name: "node", query: "label_values(metalbridge_density_node_score, node)", isMulti: true }],
  rows: [
    {
      title: "Now",
      panels: [
        stat({
          title: "Machines",
          description: "Hosts and nodes that are known, silent ones too.",
          queries: [["", "max(metalbridge_density_cluster_nodes_total)"]],
        }),
        stat({
          title: "Stale",
          description: "Hosts and nodes that are silent.",
          queries: [["", "max(metalbridge_density_cluster_nodes_stale)"]],
        }),
        stat({
          title: "GPUs",
          description: "Of all machines; a Mac has one.",
          queries: [["", `sum(${of("gpu_count")})`]],
        }),
      ],
    },
    {
      title: "Scores",
      panels: [
        graph({
          title: "Best score",
          description:
            "Highest score of a model of the catalog, by machine. A fall means less memory or another budget.",
          width: 12,
          queries: [["{{kind}} {{node}}", of("score")]],
        }),
        graph({
          title: "Models that fit",
          description: "Models of the catalog that are not too tight, by machine.",
          width: 12,
          queries: [["{{kind}} {{node}}", of("model_count")]],
        }),
      ],
    },
    {
      title: "Memory",
      panels: [
        graph({
          title: "Memory available",
          description: "What programs could get, in GiB.",
          queries: [["{{kind}} {{node}}", of("ram_available_gb")]],
        }),
        graph({
          title: "Memory installed",
          description: "In GiB.",
          queries: [["{{kind}} {{node}}", of("ram_total_gb")]],
        }),
        graph({
          title: "GPU memory",
          description: "Of one GPU, in GiB; of a Mac what engines may claim.",
          queries: [["{{kind}} {{node}}", `${of("gpu_vram_gb")} > 0`]],
        }),
      ],
    },
  ],
};
