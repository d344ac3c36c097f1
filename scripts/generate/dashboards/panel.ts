/** Grafana dashboards from a few words per panel: rows of equal height, one data source, one style. */

/** Units as Grafana names them. */
type Unit = "short" | "bytes" | "s" | "percentunit" | "reqps" | "Bps" | "none" | "dateTimeFromNow";

export interface Panel {
  readonly title: string;
  /** One sentence for whoever hovers over the title. */
  readonly description: string;
  readonly kind: "timeseries" | "stat" | "table";
  readonly unit: Unit;
  readonly queries: readonly (readonly [legend: string, expr: string])[];
  /** Of 24. */
  readonly width: number;
}

export interface Variable {
  readonly name: string;
  readonly query: string;
  readonly isMulti: boolean;
}

export interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  readonly variables: readonly Variable[];
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

const DATA_SOURCE = { type: "prometheus", uid: "$datasource" };
const PANEL_HEIGHT = 8;
const STAT_HEIGHT = 4;

/** What Grafana imports. */
export function renderDashboard({ uid, title, description, variables, rows }: Dashboard): string {
  const panels: object[] = [];
  let id = 0;
  let y = 0;
  for (const row of rows) {
    id += 1;
    panels.push({
      id,
      type: "row",
      title: row.title,
      collapsed: false,
      gridPos: { h: 1, w: 24, x: 0, y },
      panels: [],
    });
    y += 1;
    let x = 0;
    const height = row.panels.every(({ kind }) => kind === "stat") ? STAT_HEIGHT : PANEL_HEIGHT;
    for (const panel of row.panels) {
      if (x + panel.width > 24) {
        x = 0;
        y += height;
      }
      id += 1;
      panels.push(renderPanel(panel, id, { h: height, w: panel.width, x, y }));
      x += panel.width;
    }
    y += height;
  }
  const dashboard = {
    uid,
    title,
    description,
    tags: ["metalbridge"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "browser",
    templating: { list: [dataSourceVariable(), ...variables.map(renderVariable)] },
    panels,
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

function renderPanel(panel: Panel, id: number, gridPos: object): object {
  const { title, description, kind, unit, queries } = panel;
  const targets = queries.map(([legendFormat, expr], index) => ({
    refId: String.fromCharCode(65 + index),
    datasource: DATA_SOURCE,
    expr,
    legendFormat,
    ...(kind === "table" ? { format: "table", instant: true } : {}),
    ...(kind === "stat" ? { instant: true } : {}),
  }));
  const defaults = {
    unit,
    ...(kind === "timeseries" ? { min: 0, custom: { fillOpacity: 10, showPoints: "never" } } : {}),
  };
  return {
    id,
    type: kind,
    title,
    description,
    datasource: DATA_SOURCE,
    gridPos,
    fieldConfig: { defaults, overrides: [] },
    options: optionsOf(kind),
    targets,
    transformations: kind === "table" ? HIDDEN_COLUMNS : undefined,
  };
}

const HIDDEN_COLUMNS = [
  { id: "merge", options: {} },
  {
    id: "organize",
    options: {
      excludeByName: {
        Time: true,
        __name__: true,
        instance: true,
        job: true,
        Value: true,
        "Value #A": true,
        "Value #B": true,
      },
    },
  },
];

function optionsOf(kind: Panel["kind"]): object {
  switch (kind) {
    case "timeseries":
      return {
        legend: { displayMode: "list", placement: "bottom" },
        tooltip: { mode: "multi", sort: "desc" },
      };
    case "stat":
      return {
        reduceOptions: { calcs: ["lastNotNull"] },
        colorMode: "none",
        graphMode: "none",
        textMode: "value_and_name",
      };
    case "table":
      return { showHeader: true };
    default:
      return kind satisfies never;
  }
}

function dataSourceVariable(): object {
  return { name: "datasource", label: "Data source", type: "datasource", query: "prometheus", current: {} };
}

function renderVariable({ name, query, isMulti }: Variable): object {
  return {
    name,
    label: name,
    type: "query",
    datasource: DATA_SOURCE,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    multi: isMulti,
    includeAll: isMulti,
    allValue: isMulti ? ".*" : undefined,
    current: {},
  };
}

type Short = Pick<Panel, "title" | "description" | "queries"> & {
  readonly unit?: Unit;
  readonly width?: number;
};

export function graph({ unit = "short", width = 8, ...rest }: Short): Panel {
  return { kind: "timeseries", unit, width, ...rest };
}

export function stat({ unit = "short", width = 4, ...rest }: Short): Panel {
  return { kind: "stat", unit, width, ...rest };
}

export function table({ unit = "none", width = 24, ...rest }: Short): Panel {
  return { kind: "table", unit, width, ...rest };
}
