/** Parsers of the arguments of commands. Each throws InvalidArgumentError. */
import { InvalidArgumentError } from 'commander';
import { type Instant, instantOf, parseInstant } from '../history/instant.js';
import { idFault } from '../domain/fields.js';

/** A point in the past: after the event at a position, or after all that was decided at this instant or earlier. */
export type PointInTime = { readonly position: string } | { readonly instant: Instant };

export const plantId = (value: string): number => {
  const id = Number(value);
  if (!/^(0|-?[1-9]\d{0,15})$/.test(value) || idFault(id) !== undefined)
    throw new InvalidArgumentError('It must be an integer in its plain decimal form, such as 7 or -7.');
  return id;
};

export const instant = (value: string): Instant => {
  const parsed = parseInstant(value);
  if (!parsed) throw new InvalidArgumentError('It must be an RFC 3339 instant such as 2026-01-31T12:00:00Z.');
  return parsed;
};

/** A position is all digits. */
export const pointInTime = (value: string): PointInTime => {
  if (/^\d+$/.test(value)) return { position: value };
  const moment = instant(value);
  if (moment > instantOf(new Date())) throw new InvalidArgumentError('It must not be in the future.');
  return { instant: moment };
};

export const positiveInteger = (value: string): number => {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('It must be a positive integer.');
  return Number(value);
};

export const nonEmptyText = (value: string): string => {
  if (value.trim() === '') throw new InvalidArgumentError('It must not be empty.');
  return value;
};

export const portNumber = (value: string): number => {
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535)
    throw new InvalidArgumentError('It must be a port: 0 to 65535, where 0 takes a free one.');
  return Number(value);
};
