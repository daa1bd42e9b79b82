// What classes have that is not written in them: what Python writes into a page, and what Object.assign sets.

type Numbers = { chunk: number; offset: number; type: string; shape: number[]; bytes: number; precision: number };
type Part = { name: string; scale: number; thumbScale: number; thumbs: Numbers; values: Numbers | null };

declare module "./contents.js" {
  interface Contents {
    [described: string]: any;
    maps: import("./contents.js").PageMap[];
    headColours: string[][];
    statistics: any; tables: any; scales: any; sort: any; images: any;
    inflated: Promise<void>;
  }
  interface PageMap {
    index: number; layer: number | null; sentence: number | null; pass: number | null; reach: number | null;
    name: string; title: string; label: string; layerText: string; shortNames: string[]; kind: string; module: string; family: string;
    heads: number[]; names: string[]; parts: Part[]; precision: number; sinks: number[];
    isRecorded: boolean; hiddenLater: boolean; begins: boolean; weighedBeyond: Numbers | null;
    quantity: { key: string; name: string; reduction: string; is_distribution: boolean; through_layers: boolean };
    queries: { edges: number[] | null }; keys: { edges: number[] | null };
    call: any;
  }
}
declare module "./colours.js" {
  interface Colours { paper: string; ink: string; quiet: string; line: string; accent: string }
}
declare module "./tile.js" {
  interface Tile {
    map: import("./contents.js").PageMap; part: Part; scale: any; range: number[];
    rows: import("./axis.js").Axis; columns: import("./axis.js").Axis; sinks: number[];
  }
}
declare module "./strip.js" {
  interface HeadSide { labels: string[]; group: number }
  interface StripTile { heads: Array<{ map: import("./contents.js").PageMap; head: number }>; query: number }
}
declare module "./rule.js" {
  interface Call { queries: number; dKey: number }
}
declare module "./words.js" {
  interface Words {
    pieces: import("./pieces.js").Pieces; start: number; end: number; special: boolean; words: HTMLElement[];
  }
}
declare module "./overview.js" {
  interface Thumb { map: import("./contents.js").PageMap; head: number; key: string }
}
declare global {
  interface Window { mhaviz: any }
  interface ParentNode { querySelector(selector: string): any; querySelectorAll(selector: string): NodeListOf<any> }
  interface Document { readonly activeElement: any }
  interface Element { setAttribute(name: string, value: any): void }
}
export {};
