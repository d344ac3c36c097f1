/** The pages in the order of the rail, and the keys that open them. */
import {
  Activity,
  Boxes,
  ChartColumn,
  Cpu,
  Gauge,
  type LucideIcon,
  MessagesSquare,
  Network,
  Route,
  Server,
  Settings,
} from "lucide-react";

/** Opens the command palette. */
export const COMMAND_KEY = navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K";

export interface NavigationItem {
  readonly to: string;
  readonly label: string;
  /** A second name, by which the search finds it. */
  readonly alias?: string;
  readonly icon: LucideIcon;
  /** After g. */
  readonly key: string;
  /** In the bar of a phone; the others are behind More. */
  readonly isOnPhone?: boolean;
}

export const NAVIGATION: readonly NavigationItem[] = [
  { to: "/", label: "Overview", icon: Activity, key: "o", isOnPhone: true },
  { to: "/services", label: "Services", icon: Boxes, key: "s", isOnPhone: true },
  { to: "/models", label: "Models", icon: Cpu, key: "m" },
  { to: "/hosts", label: "Hosts", icon: Server, key: "h", isOnPhone: true },
  { to: "/fits", label: "What fits", alias: "Model density", icon: Gauge, key: "d" },
  { to: "/topology", label: "Topology", icon: Network, key: "t" },
  { to: "/playground", label: "Playground", icon: MessagesSquare, key: "p", isOnPhone: true },
  { to: "/gateway", label: "Gateway", icon: Route, key: "w" },
  { to: "/usage", label: "Usage", icon: ChartColumn, key: "u" },
  { to: "/settings", label: "Settings", icon: Settings, key: "," },
];
