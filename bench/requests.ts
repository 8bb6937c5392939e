import { readFileSync } from 'node:fs';
import { type Load } from './load.js';

/** One request of a load. */
export interface LoadRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** Gives the requests of a load one after the other, as wrk.lua does. */
export const requestsOf = (
  load: Pick<Load, 'kind' | 'path' | 'ids' | 'authorizations' | 'turns' | 'from'>,
): (() => LoadRequest) => {
  const authorizations = linesOf(load.authorizations);
  const turns = load.turns === undefined ? [] : linesOf(load.turns).map(Number);
  const before = load.from ?? 0;
  const ids = idsIn(load.ids);
  let asked = 0;
  /** Of the owner whose turn it is, else that of a number. */
  const headersOf = (number: number) => {
    const turn = turns[(before + asked - 1) % turns.length];
    const line = turn === undefined ? number % authorizations.length : turn - 1;
    return { authorization: authorizations[line] ?? '' };
  };
  return () => {
    asked += 1;
    if (load.kind === 'list' || (load.kind === 'mix' && asked % 10 !== 0))
      return { method: 'GET', path: load.path, headers: headersOf(before + asked) };
    const id = ids();
    if (load.kind === 'delete') return { method: 'DELETE', path: `/plants/${id}`, headers: headersOf(id) };
    return creation(id, headersOf(id).authorization);
  };
};

const linesOf = (file: string): string[] => readFileSync(file, 'utf8').trim().split('\n');

/** The request that adds a plant. */
export const creation = (id: number, authorization: string): LoadRequest => ({
  method: 'POST',
  path: '/plants',
  headers: { authorization, 'content-type': 'application/json' },
  body: JSON.stringify({ name: `Monstera deliciosa ${id}`, tag: 'aroid', id }),
});

/** Counts through the ranges, and on after the last one. */
const idsIn = (ranges: Load['ids']): (() => number) => {
  let range = 0;
  let id = (ranges[0]?.first ?? 1) - 1;
  return () => {
    const next = ranges[range + 1];
    if (id === ranges[range]?.last && next) {
      range += 1;
      id = next.first;
    } else id += 1;
    return id;
  };
};
