/** Names of the DOM that the types of playwright-core and axe-core mention. The library of the DOM itself would add its globals to the whole project. */
declare global {
  interface Node {
    readonly nodeName: string;
  }
  interface NodeList {
    readonly length: number;
  }
  interface Element extends Node {
    readonly tagName: string;
  }
  interface HTMLElement extends Element {
    readonly title: string;
  }
  interface SVGElement extends Element {
    readonly tabIndex: number;
  }
  interface HTMLElementTagNameMap {
    readonly a: HTMLElement;
  }
  interface Document extends Node {
    readonly body: HTMLElement;
  }
  interface DOMRect {
    readonly width: number;
    readonly height: number;
  }
  interface Window {
    readonly document: Document;
  }
}

export {};
