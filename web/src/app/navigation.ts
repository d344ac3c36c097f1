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
import { text } from "../texts/text.ts";

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
  { to: "/", label: text.pages.overview, icon: Activity, key: "o", isOnPhone: true },
  { to: "/services", label: text.pages.services, icon: Boxes, key: "s", isOnPhone: true },
  { to: "/models", label: text.pages.models, icon: Cpu, key: "m" },
  { to: "/hosts", label: text.pages.hosts, icon: Server, key: "h", isOnPhone: true },
  { to: "/fits", label: text.pages.whatFits, alias: "Model density", icon: Gauge, key: "d" },
  { to: "/topology", label: text.pages.topology, icon: Network, key: "t" },
  { to: "/playground", label: text.pages.playground, icon: MessagesSquare, key: "p", isOnPhone: true },
  { to: "/gateway", label: text.pages.gateway, icon: Route, key: "w" },
  { to: "/usage", label: text.pages.usage, icon: ChartColumn, key: "u" },
  { to: "/settings", label: text.pages.settings, icon: Settings, key: "," },
];
